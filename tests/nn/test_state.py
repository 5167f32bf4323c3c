"""State dicts: out, in, strictly and loosely, all or nothing; their hooks."""

from __future__ import annotations

import pytest
from small_nets import Net, same

import symgrad as sg
from symgrad import nn


def test_state_goes_out_and_in():
    a, b = Net(), Net()
    assert list(a.state_dict()) == ["scale", "steps", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert not a.state_dict()["scale"].requires_grad
    assert a.state_dict(keep_vars=True)["scale"] is a.scale
    kept = b.first.weight
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert b.first.weight is kept
    assert all(same(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scale": None}, 'Missing key\\(s\\) in state_dict: "scale"'),
        ({"other": sg.ones(1)}, 'Unexpected key\\(s\\) in state_dict: "other"'),
        ({"second.bias": sg.ones(3)}, r"size mismatch for second.bias: copying a param with shape torch.Size\(\[3\]\)"),
    ],
)
def test_loading_is_all_or_nothing(change, words):
    net = Net()
    state = {k: v + 1 for k, v in net.state_dict().items()}
    state.update(change)
    state = {k: v for k, v in state.items() if v is not None}
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(RuntimeError, match=f"Error\\(s\\) in loading state_dict for Net:\n\t{words}"):
        net.load_state_dict(state)
    assert all(same(v, net.state_dict()[k]) for k, v in before.items())


def test_loading_loosely_tells_what_did_not_fit():
    net = Net()
    result = net.load_state_dict({"scale": sg.zeros(2), "other": sg.ones(1)}, strict=False)
    assert result.unexpected_keys == ["other"]
    assert "first.weight" in result.missing_keys
    assert net.scale.tolist() == [0, 0]


def test_keys_that_nearly_fit_are_named():
    state = nn.Sequential(nn.Linear(1, 1)).state_dict()
    with pytest.raises(RuntimeError) as error:
        nn.Linear(1, 1).load_state_dict(state)
    lines = str(error.value).split("\n\t")
    assert lines == [
        "Error(s) in loading state_dict for Linear:",
        'Missing key(s) in state_dict: "weight", "bias". ',
        'Unexpected key(s) in state_dict: "0.weight", "0.bias". ',
        'Close matches: "0.weight" for "weight", "0.bias" for "bias"',
    ]
    with pytest.raises(RuntimeError, match=r'Close matches: "wieght" for "weight"$'):
        nn.Linear(1, 1).load_state_dict({"wieght": sg.ones(1, 1), "bias": sg.ones(1)})


def test_what_has_a_long_prefix_too_many_or_too_few_nearly_fits():
    layer = nn.Linear(1, 1, bias=False)
    whole = nn.ModuleDict({"the_encoder": nn.ModuleDict({"projection": layer})})
    long = "the_encoder.projection.weight"
    with pytest.raises(RuntimeError, match=f'Close matches: "{long}" for "weight"$'):
        layer.load_state_dict(whole.state_dict())
    with pytest.raises(RuntimeError, match=f'Close matches: "weight" for "{long}"$'):
        whole.load_state_dict(layer.state_dict())


def test_many_problems_are_told_at_once():
    with pytest.raises(RuntimeError) as error:
        Net().load_state_dict({"scale": 3, "first.weight": sg.ones(1), "first.other": sg.ones(1), "second.a.b": sg.ones(1)})
    assert str(error.value).split("\n\t")[1:] == [
        'Missing key(s) in state_dict: "steps", "first.bias", "second.weight", "second.bias". ',
        'Unexpected key(s) in state_dict: "first.other", "second.a.b". ',
        'While copying the parameter named "scale", expected torch.Tensor or Tensor-like object from checkpoint but received'
        " <class 'int'>",
        "size mismatch for first.weight: copying a param with shape torch.Size([1]) from checkpoint, the shape in current model is"
        " torch.Size([4, 3]).",
    ]


def test_what_is_named_like_a_module_or_lies_below_a_tensor_has_no_place():
    state = {**Net().state_dict(), "first": sg.ones(1), "scale.part": sg.ones(1)}
    assert Net().load_state_dict(state, strict=False).unexpected_keys == ["first", "scale.part"]


def test_assigning_takes_the_tensors_themselves():
    net = Net()
    net.scale.requires_grad_(False)
    state = {key: value.clone().double() for key, value in net.state_dict().items()}
    state["second.bias"] = nn.Parameter(state["second.bias"])
    net.second.bias.requires_grad_(False)
    net.load_state_dict(state, assign=True)
    assert net.second.bias is state["second.bias"]
    assert not net.second.bias.requires_grad
    assert net.steps is state["steps"]
    assert net.scale.data_ptr() == state["scale"].data_ptr()
    assert isinstance(net.scale, nn.Parameter)
    assert (net.scale.requires_grad, net.first.weight.requires_grad) == (False, True)
    assert {p.dtype for p in net.parameters()} == {sg.float64}
    with pytest.raises(RuntimeError, match="size mismatch for scale"):
        net.load_state_dict({**state, "scale": sg.ones(5)}, assign=True)


def test_the_state_tells_versions():
    state = nn.Sequential(Net()).state_dict()
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}, "0.first": {"version": 1}, "0.second": {"version": 1}}


def test_a_module_reads_what_an_older_one_saved():
    class Renamed(nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    given = {"w": sg.full((1, 1), 7.0), "bias": sg.zeros(1)}
    Renamed(1, 1).load_state_dict(given)
    assert list(given) == ["w", "bias"]
    net, given = nn.Sequential(Renamed(1, 1)), {"0.w": sg.full((1, 1), 7.0), "0.bias": sg.zeros(1)}
    net.load_state_dict(given)
    assert net[0].weight.tolist() == [[7]]
    assert list(given) == ["0.w", "0.bias"]
    assert repr(net.load_state_dict(net.state_dict())) == "<All keys matched successfully>"


def test_a_module_loads_its_own_part_when_asked_directly():
    layer, missing = nn.Linear(1, 1), []
    layer._load_from_state_dict({"a.weight": sg.full((1, 1), 3.0)}, "a.", {}, True, missing, [], [])
    assert layer.weight.tolist() == [[3]]
    assert missing == ["a.bias"]


class Counting(nn.Linear):
    steps = 0

    def get_extra_state(self):
        return {"steps": self.steps}

    def set_extra_state(self, state):
        self.steps = state["steps"]


def test_extra_state_travels_along():
    net, other = nn.Sequential(Counting(1, 1)), nn.Sequential(Counting(1, 1))
    net[0].steps = 7
    state = net.state_dict()
    assert state["0._extra_state"] == {"steps": 7}
    with pytest.raises(RuntimeError, match="size mismatch"):
        other.load_state_dict({**state, "0.bias": sg.ones(2)})
    assert other[0].steps == 0
    other.load_state_dict(state)
    assert other[0].steps == 7
    with pytest.raises(RuntimeError, match=r'Missing key.*"0._extra_state"'):
        other.load_state_dict({key: state[key] for key in ("0.weight", "0.bias")})
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"0._extra_state"'):
        nn.Sequential(nn.Linear(1, 1)).load_state_dict(state)


def test_a_number_may_come_as_a_vector_of_one():
    net = nn.Module()
    net.number = nn.Parameter(sg.tensor(1.0))
    net.load_state_dict({"number": sg.tensor([3.0])})
    assert net.number.item() == 3


def test_state_into_a_dictionary_of_ones_own():
    mine = {"a": 1}
    assert nn.Linear(1, 1).state_dict(destination=mine, prefix="b.") is mine
    assert list(mine) == ["a", "b.weight", "b.bias"]
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        assert nn.Linear(1, 1).state_dict(mine, "c.")["c.weight"].shape == (1, 1)


def test_hooks_around_saving():
    net, seen = nn.Sequential(nn.Linear(1, 1)), []
    net[0].register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    handle = net[0].register_state_dict_post_hook(lambda module, state, prefix, meta: state.update({prefix + "more": meta["version"]}))
    assert net.state_dict()["0.more"] == 1
    assert seen == [("0.", False)]
    handle.remove()
    net.register_state_dict_post_hook(lambda module, state, prefix, meta: state)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        net.state_dict()


def test_hooks_around_loading():
    net = nn.Sequential(nn.Linear(1, 1))
    state, seen = net.state_dict(), []
    state["0.more"] = 1
    net[0].register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: state.pop(prefix + "more"))
    assert repr(net.load_state_dict(state)) == "<All keys matched successfully>"
    handle = net.register_load_state_dict_post_hook(lambda module, keys: seen.append(module[0].weight.item()) or keys.missing_keys.clear())
    net.load_state_dict({"0.weight": sg.full((1, 1), 5.0), "0.more": 1})  # the bias is missing, and excused
    assert seen == [5]
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict({"0.weight": sg.full((1, 1), 6.0), "0.bias": sg.ones(2), "0.more": 1})
    assert net[0].weight.item() == 5
    handle.remove()
    net.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="not expected to return new values"):
        net.load_state_dict(state)


def test_keys_that_no_post_hook_excuses_raise_after_the_writing():
    layer, seen = nn.Linear(1, 1), []
    layer.register_load_state_dict_post_hook(lambda module, keys: seen.append((list(keys.missing_keys), list(keys.unexpected_keys))))
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "bias"'):
        layer.load_state_dict({"weight": sg.full((1, 1), 5.0), "more": sg.ones(1)})
    assert seen == [(["bias"], ["more"])]
    assert layer.weight.item() == 5
    result = layer.load_state_dict({"weight": sg.full((1, 1), 6.0), "more": sg.ones(1)}, strict=False)
    assert repr(result) == "_IncompatibleKeys(missing_keys=['bias'], unexpected_keys=['more'])"


def test_buffers_that_are_not_persistent_are_no_state():
    module = nn.Module()
    module.register_buffer("kept", sg.ones(1))
    module.register_buffer("lost", sg.ones(1), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    module.lost = sg.zeros(1)  # stays what it is
    assert list(module.state_dict()) == ["kept"]
    module.lost = nn.Buffer(sg.zeros(1))
    module.kept = nn.Buffer(sg.zeros(1), persistent=False)
    assert list(module.state_dict()) == ["lost"]
    assert module.load_state_dict({"lost": sg.full((1,), 3.0), "kept": sg.ones(1)}, strict=False).unexpected_keys == ["kept"]
    assert module.lost.item() == 3


def test_a_buffer_takes_the_name_of_a_plain_attribute():
    module = nn.Module()
    module.name = 3
    module.name = nn.Buffer(sg.ones(1))
    assert list(module._buffers) == ["name"]
    assert "name" not in vars(module)
    module.name = None
    assert (module.name, list(module._buffers)) == (None, ["name"])
