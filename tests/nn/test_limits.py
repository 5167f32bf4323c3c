"""Arguments at their limits and just beyond, what functions hand back, and options that layers hand on to their parts."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.mode import guard_epoch
from symgrad.nn import functional as F
from symgrad.nn.utils import rnn

# --- classes and weights of losses


@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy])
def test_classes_out_of_range(loss):
    scores = sg.zeros(2, 3)
    for bad in (3, -1):
        with pytest.raises(IndexError, match=f"nll_loss: Target {bad} is out of bounds for 3 classes"):
            loss(scores, sg.tensor([0, bad]))
    one = loss(scores, sg.tensor([0, 0])).item()
    for ignored in (-1, 7, -100):
        assert loss(scores, sg.tensor([0, ignored]), ignore_index=ignored).item() == pytest.approx(one)


@pytest.mark.parametrize(
    ("loss", "inputs", "name"),
    [
        (F.binary_cross_entropy, (sg.ones(3) / 2, sg.ones(3)), "weight"),
        (F.binary_cross_entropy_with_logits, (sg.ones(3), sg.ones(3)), "weight"),
        (F.binary_cross_entropy_with_logits, (sg.ones(3), sg.ones(3)), "pos_weight"),
        (F.nll_loss, (sg.ones(2, 3), sg.tensor([0, 1])), "weight"),
    ],
)
def test_weights_have_no_derivative(loss, inputs, name):
    weight = sg.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=f"{loss.__name__}: the derivative for '{name}' is not implemented"):
        loss(*inputs, **{name: weight})
    with sg.no_grad():
        assert math.isfinite(loss(*inputs, **{name: weight}).item())


def test_labels_of_several_classes():
    scores = sg.tensor([[0.1, 0.2, 0.4, 0.8]])
    wanted = 0.25 * ((1 - (0.1 - 0.2)) + (1 - (0.1 - 0.4)) + (1 - (0.8 - 0.2)) + (1 - (0.8 - 0.4)))  # PyTorch's documentation
    assert F.multilabel_margin_loss(scores, sg.tensor([[3, 0, -1, 1]])).item() == pytest.approx(wanted)
    assert F.multilabel_margin_loss(scores, sg.tensor([[-1, 0, 1, 2]])).item() == 0
    for bad in (-2, 4):
        with pytest.raises(RuntimeError, match="target out of range"):
            F.multilabel_margin_loss(scores, sg.tensor([[0, 1, bad, 2]]))


def test_margins_between_classes():
    scores = sg.tensor([[0.5, 2.0, 1.0]])
    for p, wanted in ((1, (2.5 + 1.5) / 3), (2, (2.5**2 + 1.5**2) / 3)):
        assert F.multi_margin_loss(scores, sg.tensor([0]), p=p).item() == pytest.approx(wanted)
        weighted = F.multi_margin_loss(scores, sg.tensor([0]), p=p, weight=sg.tensor([3.0, 9.0, 9.0]))
        assert weighted.item() == pytest.approx(3 * wanted)
    assert F.multi_margin_loss(scores[0], sg.tensor(2), margin=0.0).item() == pytest.approx(1 / 3)
    for bad in (-1, 3):
        with pytest.raises(RuntimeError, match="target out of range for 3 classes"):
            F.multi_margin_loss(scores, sg.tensor([bad]))
    with pytest.raises(ValueError, match="only p == 1 and p == 2 supported"):
        F.multi_margin_loss(scores, sg.tensor([0]), p=3)


def test_losses_at_the_top_have_numbers_for_reductions():
    x, y, w = sg.tensor([0.5, -1.0, 2.0]), sg.tensor([1.0, 0.0, 0.3]), sg.tensor([1.0, 2.0, 3.0])
    for number, word in enumerate(("none", "mean", "sum")):
        wanted = F.binary_cross_entropy_with_logits(x, y, w, reduction=word, pos_weight=w)
        assert sg.binary_cross_entropy_with_logits(x, y, w, w, number).tolist() == wanted.tolist()
        wanted = F.poisson_nll_loss(x, y + 2, False, True, eps=4.0, reduction=word)
        assert sg.poisson_nll_loss(x, y + 2, False, True, 4.0, number).tolist() == wanted.tolist()
        wanted = F.kl_div(x, y, reduction="none", log_target=True)
        wanted = wanted if word == "none" else getattr(wanted, word)()
        assert sg.kl_div(x, y, number, log_target=True).tolist() == wanted.tolist()
        signs = sg.tensor([1.0, -1.0, 1.0])
        assert sg.hinge_embedding_loss(x, signs, 0.7, number).tolist() == F.hinge_embedding_loss(x, signs, 0.7, reduction=word).tolist()
        assert sg.margin_ranking_loss(x, y, signs, 0.7, number).tolist() == F.margin_ranking_loss(x, y, signs, 0.7, reduction=word).tolist()
        assert sg.hinge_embedding_loss(x, signs, reduction=number).tolist() == F.hinge_embedding_loss(x, signs, reduction=word).tolist()


# --- functions


def test_soft_and_hard_draws_of_categories():
    sg.manual_seed(0)
    logits = sg.zeros(50, 4, requires_grad=True)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.sum(1).detach().numpy(), np.ones(50), rtol=1e-5)
    assert 0 < soft.min().item() < soft.max().item() < 1
    hard = F.gumbel_softmax(logits, hard=True, dim=0)
    np.testing.assert_allclose(hard.sum(0).detach().numpy(), np.ones(4), rtol=1e-5)
    assert sorted(set(hard.detach().round(decimals=4).reshape(-1).tolist())) == [0.0, 1.0]
    (hard[:, 0] * sg.arange(50)).sum().backward()
    assert logits.grad[:, 0].abs().sum().item() > 0


def test_divisors_of_pools():
    data = sg.arange(16.0).reshape(1, 1, 4, 4)
    sums = F.avg_pool2d(data, 2).numpy() * 4
    for divisor in (1, 3, -2):
        np.testing.assert_allclose(F.avg_pool2d(data, 2, divisor_override=divisor).numpy(), sums / divisor)
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        F.avg_pool2d(data, 2, divisor_override=0)


def test_channels_of_one_group_stay():
    data = sg.arange(12.0).reshape(1, 4, 3)
    assert F.channel_shuffle(data, 1).tolist() == F.channel_shuffle(data, 4).tolist() == data.tolist()
    assert F.channel_shuffle(data, 2).tolist() == data[:, [0, 2, 1, 3]].tolist()
    for groups in (0, -1):
        with pytest.raises(RuntimeError, match="must be positive"):
            F.channel_shuffle(data, groups)


def test_pads_that_take_everything_away():
    data = sg.arange(6.0).reshape(2, 3)
    assert F.pad(data, (-1, -1)).tolist() == [[1], [4]]
    assert F.pad(data, (-2, -1)).shape == (2, 0)
    assert F.pad(data, (2, -1)).tolist() == [[0, 0, 0, 1], [0, 0, 3, 4]]
    assert F.pad(data, (-3, 1), value=7.0).tolist() == [[7], [7]]
    for pads in ((-2, -2), (-4, 0), (0, -4)):
        with pytest.raises(RuntimeError, match="than there is"):
            F.pad(data, pads)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_nothing_and_of_padding(mode):
    weight = sg.tensor([[1.0, 8.0], [3.0, 4.0], [5.0, 6.0]])
    rows = weight.numpy()
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    bags = F.embedding_bag(sg.tensor([0, 1, 2, 2]), weight, sg.tensor([0, 2, 2]), mode=mode)
    np.testing.assert_allclose(bags.numpy(), [reduce(rows[:2], 0), [0, 0], reduce(rows[[2, 2]], 0)])
    bags = F.embedding_bag(sg.tensor([0, 1, 2, 2]), weight, sg.tensor([0, 1, 4]), mode=mode, include_last_offset=True)
    np.testing.assert_allclose(bags.numpy(), [rows[0], reduce(rows[[1, 2, 2]], 0)])
    bags = F.embedding_bag(sg.tensor([[0, 1], [2, 2]]), weight, mode=mode, padding_idx=-1)
    np.testing.assert_allclose(bags.numpy(), [reduce(rows[:2], 0), [0, 0]])
    assert F.embedding_bag(sg.zeros(0, dtype=sg.int64), weight, sg.tensor([0, 0]), mode=mode).tolist() == [[0, 0], [0, 0]]


# --- sequences


def test_packed_sequences_in_other_types():
    packed = rnn.pack_sequence([sg.tensor([1.5, 2.5]), sg.tensor([3.5, 4.5, 5.5])], enforce_sorted=False)
    for name, dtype in (("double", sg.float64), ("half", sg.float16), ("long", sg.int64), ("int", sg.int32)):
        other = getattr(packed, name)()
        assert (type(other), other.data.dtype) == (rnn.PackedSequence, dtype)
        assert all(a is b for a, b in zip(packed[1:], other[1:], strict=True))
    assert packed.to(sg.float64).data.dtype is sg.float64
    assert packed.float() is packed.cpu() is packed.to(sg.float32) is packed
    assert packed.is_cuda is False
    with pytest.raises(RuntimeError, match="cuda"):
        packed.cuda()
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [[1.5, 2.5], [3.5, 4.5, 5.5]]


def test_lengths_of_packed_sequences():
    data = sg.arange(6.0).reshape(3, 2)
    assert rnn.pack_padded_sequence(data, [3, 3]).data.tolist() == [0, 1, 2, 3, 4, 5]
    assert rnn.pack_padded_sequence(data, [3, 1]).data.tolist() == [0, 1, 2, 4]
    assert rnn.pack_padded_sequence(data.t(), [3, 1], batch_first=True).data.tolist() == [0, 1, 2, 4]
    for lengths, words in (([4, 1], "found a length of 4"), ([2, 0], "has to be greater than 0"), ([1, 2], "sorted in decreasing order")):
        with pytest.raises(RuntimeError, match=words):
            rnn.pack_padded_sequence(data, lengths)
    packed = rnn.pack_padded_sequence(data, [2, 1])
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=9.0, total_length=3)
    assert (padded.tolist(), lengths.tolist()) == ([[0, 1], [2, 9], [9, 9]], [2, 1])
    assert rnn.pad_packed_sequence(packed, total_length=2)[0].shape == (2, 2)
    with pytest.raises(ValueError, match="total_length=1 and max sequence length being 2"):
        rnn.pad_packed_sequence(packed, total_length=1)


# --- helpers hand back their module


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_helpers_return_the_module():
    layer = nn.Linear(3, 2)
    for act in (
        nn.utils.weight_norm, nn.utils.remove_weight_norm, nn.utils.spectral_norm, nn.utils.remove_spectral_norm,
        nn.utils.parametrizations.weight_norm, lambda m: nn.utils.parametrize.remove_parametrizations(m, "weight"),
        nn.utils.parametrizations.spectral_norm, lambda m: m.train(), lambda m: m.eval(), lambda m: m.apply(repr),
        lambda m: m.requires_grad_(), lambda m: m.half(), lambda m: m.bfloat16(), lambda m: m.float(), lambda m: m.cpu(),
        lambda m: m.to_empty(device="cpu"),
    ):  # fmt: skip
        assert act(layer) is layer


# --- modules


def test_modules_below_can_be_left_out_of_a_conversion():
    net = nn.Sequential(nn.Linear(1, 1))
    net.own = nn.Parameter(sg.ones(2))
    inner, own = net[0].weight.data_ptr(), net.own.data_ptr()
    net.to_empty(device="cpu", recurse=False)
    assert net[0].weight.data_ptr() == inner
    assert net.own.data_ptr() != own


def test_zero_grad_of_a_module_cuts_gradients_from_their_graph():
    layer = nn.Linear(1, 1)
    layer.weight.grad = sg.autograd.grad((layer.weight**3).sum(), layer.weight, create_graph=True)[0]
    assert layer.weight.grad.requires_grad
    layer.zero_grad(set_to_none=False)
    assert (layer.weight.grad.requires_grad, layer.weight.grad.tolist(), layer.bias.grad) == (False, [[0]], None)


def test_positional_arguments_of_a_state_dict():
    layer, mine = nn.Linear(1, 1), {}
    with pytest.warns(FutureWarning):
        assert layer.state_dict(mine, "a.", True) is mine
    assert mine["a.weight"] is layer.weight
    with pytest.warns(FutureWarning):
        assert list(layer.state_dict({}, prefix="b.")) == ["b.weight", "b.bias"]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "plain", 2), lambda m: delattr(m, "plain"), lambda m: setattr(m, "weight", nn.Parameter(sg.ones(1))),
        lambda m: setattr(m, "weight", None), lambda m: delattr(m, "weight"), lambda m: m.register_buffer("b", sg.ones(1)),
        lambda m: m.add_module("more", nn.Identity()), lambda m: m.eval(), lambda m: m.register_forward_hook(print),
        lambda m: m.register_forward_pre_hook(print), lambda m: m.register_full_backward_hook(print),
    ],
)  # fmt: skip
def test_changes_of_a_module_count_as_changes_of_guards(change):
    module = nn.Module()
    module.plain, module.weight = 1, nn.Parameter(sg.ones(1))
    before = guard_epoch.count
    change(module)
    assert guard_epoch.count > before


def test_parameters_keep_their_flag_in_copies_and_pickles():
    for flag in (True, False):
        parameter = nn.Parameter(sg.ones(2), requires_grad=flag)
        for other in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
            assert type(other) is nn.Parameter
            assert (other.requires_grad, other.tolist()) == (flag, [1, 1])
            assert other.data_ptr() != parameter.data_ptr()
    both = copy.deepcopy([parameter, parameter])
    assert both[0] is both[1]
    assert nn.Parameter().shape == (0,)
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        nn.Parameter(sg.tensor([1]))
    assert nn.Parameter(sg.tensor([1]), requires_grad=False).tolist() == [1]


# --- options that are handed on to the parts


def test_options_of_attention():
    layer = nn.MultiheadAttention(6, 3, dropout=0.25, add_bias_kv=True, add_zero_attn=True, kdim=2, vdim=5, batch_first=True)
    assert (layer.head_dim, layer.dropout, layer.batch_first, layer.add_zero_attn) == (2, 0.25, True, True)
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert shapes == {
        "q_proj_weight": (6, 6), "k_proj_weight": (6, 2), "v_proj_weight": (6, 5), "in_proj_bias": (18,), "bias_k": (1, 1, 6),
        "bias_v": (1, 1, 6), "out_proj.weight": (6, 6), "out_proj.bias": (6,),
    }  # fmt: skip
    assert layer.in_proj_bias.abs().sum().item() == layer.out_proj.bias.abs().sum().item() == 0
    bare = nn.MultiheadAttention(6, 3, bias=False)
    assert {name: tuple(p.shape) for name, p in bare.named_parameters()} == {"in_proj_weight": (18, 6), "out_proj.weight": (6, 6)}


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_options_of_transformer_layers(kind):
    layer = kind(4, 2, 7, 0.25, "gelu", 1e-3, True, True, False)
    parts = dict(layer.named_modules())
    attentions = [m for m in parts.values() if isinstance(m, nn.MultiheadAttention)]
    norms = [m for m in parts.values() if isinstance(m, nn.LayerNorm)]
    blocks = 2 if kind is nn.TransformerEncoderLayer else 3
    assert [(m.num_heads, m.dropout, m.batch_first, m.in_proj_bias) for m in attentions] == [(2, 0.25, True, None)] * (blocks - 1)
    assert [(m.eps, m.bias) for m in norms] == [(1e-3, None)] * blocks
    assert [m.p for m in parts.values() if isinstance(m, nn.Dropout)] == [0.25] * (blocks + 1)
    assert (layer.linear1.weight.shape, layer.linear2.weight.shape) == ((7, 4), (4, 7))
    assert (layer.linear1.bias, layer.linear2.bias, layer.norm_first, layer.activation) == (None, None, True, F.gelu)
    assert kind(4, 2).activation is F.relu
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        kind(4, 2, activation="tanh")


def test_options_of_a_transformer():
    net = nn.Transformer(4, 2, 1, 2, 7, 0.25, "gelu", None, None, 1e-3, True, True, False)
    assert (len(net.encoder.layers), len(net.decoder.layers), net.encoder.num_layers, net.decoder.num_layers) == (1, 2, 1, 2)
    assert {m.eps for m in net.modules() if isinstance(m, nn.LayerNorm)} == {1e-3}
    assert {m.p for m in net.modules() if isinstance(m, nn.Dropout)} == {0.25}
    assert (net.d_model, net.nhead, net.batch_first) == (4, 2, True)
    assert all("bias" not in name for name, _ in net.named_parameters())
    assert net(sg.ones(3, 5, 4), sg.ones(3, 2, 4)).shape == (3, 2, 4)
    with pytest.raises(RuntimeError, match="batch number of src and tgt"):
        net(sg.ones(3, 5, 4), sg.ones(2, 5, 4))
    for shapes in (((1, 5, 3), (1, 2, 4)), ((1, 5, 4), (1, 2, 3))):
        with pytest.raises(RuntimeError, match="feature number of src and tgt"):
            net(*map(sg.ones, shapes))
    encoder, decoder = nn.Identity(), nn.Identity()
    other = nn.Transformer(4, 2, custom_encoder=encoder, custom_decoder=decoder)
    assert (other.encoder is encoder, other.decoder is decoder) == (True, True)
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=sg.float64)
    assert (mask.dtype, mask.tolist()) == (sg.float64, [[0, -math.inf, -math.inf], [0, 0, -math.inf], [0, 0, 0]])


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_options_of_recurrent_layers(kind):
    layer = getattr(nn, kind)(2, 3, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)
    text = f"{kind}(2, 3, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)"
    assert repr(layer) == text
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[kind]
    names = [f"{name}_l{i}{side}" for i in range(2) for side in ("", "_reverse") for name in ("weight_ih", "weight_hh")]
    assert [name for name, _ in layer.named_parameters()] == names
    first, second = ([(3 * gates, width), (3 * gates, 3)] for width in (2, 6))
    assert [[tuple(p.shape) for p in part] for part in layer.all_weights] == [first, first, second, second]
    assert max(p.abs().max().item() for p in layer.parameters()) <= 1 / math.sqrt(3)
    for name in ("input_size", "hidden_size", "num_layers"):
        with pytest.raises(ValueError, match=f"{name} must be greater than zero"):
            getattr(nn, kind)(**{"input_size": 1, "hidden_size": 1, name: 0})
    if kind != "LSTM":
        with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM"):
            getattr(nn, kind)(2, 3, proj_size=1)


def test_projections_of_an_lstm():
    layer = nn.LSTM(2, 3, 2, proj_size=1)
    assert [tuple(p.shape) for p in layer.all_weights[1]] == [(12, 1), (12, 1), (12,), (12,), (1, 3)]
    out, (h, c) = layer(sg.ones(5, 4, 2))
    assert (out.shape, h.shape, c.shape) == ((5, 4, 1), (2, 4, 1), (2, 4, 3))
    assert repr(layer) == "LSTM(2, 3, proj_size=1, num_layers=2)"
    for size, words in ((3, "has to be smaller than hidden_size"), (-1, "should be a positive integer or zero")):
        with pytest.raises(ValueError, match=words):
            nn.LSTM(2, 3, proj_size=size)
