"""Compiled functions as methods, as modules and as things to copy; what is no function of tensors says so when it is compiled."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from interpreted import interpret

import symgrad as sg
from symgrad.errors import TraceError

nn = sg.nn


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    interpret(monkeypatch)


class Scale:
    def __init__(self, factor):
        self.factor, self.weight = factor, sg.ones(2)

    def plain(self, x):
        return (x * self.weight * self.factor).sum()

    @sg.compile
    def __call__(self, x):
        return self.plain(x)

    @sg.compile(backend="numpy")
    def decorated(self, x):
        """What it does."""
        return (x * self.weight * self.factor).sum()

    @sg.compile(buckets={"x": (4, 8)})
    def rows(self, x):
        """Each row by itself."""
        return x * self.weight * self.factor

    @classmethod
    @sg.compile
    def of_the_class(cls, x):
        return x.sum()

    @staticmethod
    @sg.compile
    def of_nobody(x):
        return x.sum()


class Net(nn.Module):
    def __init__(self, factor=2):
        super().__init__()
        self.layer, self.drop, self.factor = nn.Linear(2, 1), nn.Dropout(0.5), factor

    @sg.compile
    def forward(self, x):
        return self.drop(self.layer(x)) * self.factor


class Plain(Net):
    def forward(self, x):
        return nn.functional.dropout(self.layer(x), 1.0, self.training) * self.factor


@sg.compile
def double(x):
    return x * 2


def triple(x):
    return x * 3


X = sg.tensor([[1.0, 2.0]])


# methods


@pytest.mark.parametrize("name", ["__call__", "decorated"])
def test_a_method_is_compiled_for_each_object(name):
    a, b = Scale(2), Scale(3)
    assert getattr(a, name)(X).item() == 6
    assert getattr(b, name)(X).item() == 9
    assert getattr(a, name) is getattr(a, name)
    assert getattr(a, name) is not getattr(b, name)
    assert len(getattr(a, name).recompiles()) == 1
    assert getattr(a, name).grad(X, wrt="x").tolist() == [[2, 2]]
    assert getattr(Scale, name)(a, X).item() == 6


def test_what_a_method_is_called():
    a = Scale(2)
    assert repr(a.decorated) == "<compiled decorated(x): no program yet>"
    assert a.decorated.__doc__ == "What it does."
    assert a.decorated.options.backend == "numpy"
    assert a.of_the_class(X).item() == Scale.of_the_class(X).item() == a.of_nobody(X).item() == 3


def test_an_object_without_a_dictionary_is_an_argument():
    class Slots:
        __slots__ = ()

        @sg.compile
        def twice(self, x):
            return x * 2

    assert Slots().twice(X).tolist() == [[2, 4]]


@pytest.mark.parametrize("made", [lambda a: a.decorated, lambda a: sg.compile(a.plain), sg.compile], ids=["decorated", "bound", "object"])
def test_attributes_of_the_object_are_looked_at(made):
    a = Scale(2)
    fast = made(a)
    assert fast(X).item() == 6
    a.factor = 5
    assert fast(X).item() == 15
    a.weight = sg.zeros(2)
    assert fast(X).item() == 0
    a.weight.fill_(1)
    assert fast(X).item() == 15
    assert [str(r) for r in fast.recompiles()] == ["first call", "Scale.factor: 2 -> 5", "Scale.weight: another Tensor"]


def test_an_attribute_that_the_method_changes_is_a_warning():
    class Counter:
        calls = 0

        def __init__(self):
            self.calls = 0

        @sg.compile
        def count(self, x):
            self.calls += 1
            return x * 2

    counter = Counter()
    with pytest.warns(UserWarning, match=r"^Counter\.calls is changed while the function is traced"):
        counter.count(X)
    counter.count(X)
    assert counter.calls == 1


@pytest.mark.parametrize("made", [
    lambda net: sg.compile(net.forward), lambda net: sg.compile(lambda x: net.forward(x)), sg.compile,
], ids=["bound", "by name", "module"])  # fmt: skip
def test_a_module_whose_forward_is_called_is_looked_at(made):
    net = Plain()
    fast = made(net)
    assert fast(X).item() == 0  # everything is dropped
    net.eval()
    assert fast(X).item() == net(X).item() != 0
    net.factor = 3
    assert fast(X).item() == net(X).item()
    net.layer = nn.Linear(2, 1)
    assert fast(X).item() == net(X).item()
    assert [str(r) for r in fast.recompiles()][1:3] == ["training: True -> False", "Plain.factor: 2 -> 3"]


def test_attributes_of_a_module_that_is_not_called_are_looked_at():
    net = Net()
    fast = sg.compile(lambda x: x * net.factor)
    assert fast(X).tolist() == [[2, 4]]
    net.factor = 3
    assert fast(X).tolist() == [[3, 6]]


def test_a_module_with_a_compiled_forward():
    net = Net().eval()
    expected = net.layer(X) * 2
    assert net(X).item() == expected.item()
    net(X).backward()
    np.testing.assert_array_equal(net.layer.weight.grad.numpy(), [[2, 4]])
    assert len(net.forward.recompiles()) == 1
    assert sg.compile(net)(X).item() == expected.item()
    assert list(net.state_dict()) == ["layer.weight", "layer.bias"]


# modules


def test_a_compiled_module_has_what_the_module_has():
    net = Net()
    fast = sg.compile(net)
    assert repr(fast) == "<compiled Net(x): no program yet>"
    assert [id(p) for p in fast.parameters()] == [id(p) for p in net.parameters()]
    assert fast.eval() is fast
    assert not fast.training
    assert not net.training
    assert fast.layer is net.layer
    assert fast.to(sg.float64) is fast
    assert fast.state_dict().keys() == net.state_dict().keys()
    assert fast.grad != net.parameters  # derivatives are those of the function
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nonsense'"):
        _ = fast.nonsense
    with pytest.raises(AttributeError, match="'Compiled' object has no attribute 'parameters'"):
        double.parameters()


class Parts(nn.Module):
    """Layers that may be compiled each by itself."""

    def __init__(self, prepare):
        super().__init__()
        sg.manual_seed(0)
        self.first = prepare(nn.Linear(2, 3))
        self.rest = nn.Sequential(prepare(nn.Tanh()), prepare(nn.Linear(3, 1)))

    def forward(self, x):
        return self.rest(self.first(x))


def _trained(net):
    optimizer = sg.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        net(X).square().sum().backward()
        optimizer.step()
    return {name: t.numpy() for name, t in net.state_dict().items()}


def test_compiled_modules_are_parts_of_modules():
    parts, expected = Parts(sg.compile), _trained(Parts(lambda layer: layer))
    assert [name for name, _ in parts.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert not parts.eval().first.training
    twin = copy.deepcopy(parts)
    loaded = pickle.loads(pickle.dumps(parts))
    for net in (parts, twin, loaded, sg.compile(Parts(sg.compile))):
        found = _trained(net)
        assert list(found) == list(expected) == ["first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
        for name, array in found.items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, err_msg=name)
    assert repr(twin.first) == "<compiled Linear(input): 1 program>"


def test_what_is_set_on_a_compiled_module_is_the_modules():
    net = nn.Linear(2, 1)
    fast = sg.compile(net)
    fast(X)
    assert isinstance(fast, nn.Linear)
    fast.weight = nn.Parameter(sg.ones(1, 2))
    fast.training, fast.scale = False, 2
    assert fast.weight is net.weight
    assert (net.training, net.scale) == (False, 2)
    assert fast(X).item() == pytest.approx(3 + net.bias.item())
    del fast.scale
    assert not hasattr(net, "scale")
    sg.nn.utils.parametrizations.weight_norm(fast)
    assert type(net).__name__ == "ParametrizedLinear"
    assert fast(X).item() == pytest.approx(net(X).item())


# copies


def test_copies_have_programs_of_their_own():
    fast = sg.compile(triple)
    fast(X)
    for other in (copy.copy(fast), copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert other is not fast
        assert repr(other) == "<compiled triple(x): no program yet>"
        assert other(X).tolist() == [[3, 6]]


def test_a_decorated_function_is_pickled_by_its_name(monkeypatch):
    import sys
    import types

    module = types.ModuleType("a_module_of_the_users")
    module.double = double
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(double, "__module__", module.__name__)
    double(X)
    assert copy.deepcopy(double) is double
    assert pickle.loads(pickle.dumps(double)) is double


def test_the_copy_of_an_object_has_methods_of_its_own():
    a = Scale(2)
    a.decorated(X)
    for b in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        b.factor = 10
        assert (a.decorated(X).item(), b.decorated(X).item()) == (6, 30)
        assert repr(b.decorated) == "<compiled decorated(x): 1 program>"
    net = Net().eval()
    net(X)
    twin = copy.deepcopy(net)
    with sg.no_grad():
        twin.layer.weight.zero_()
    assert twin(X).item() == twin.layer.bias.item() * 2
    fast = sg.compile(net)
    other = copy.deepcopy(fast)
    assert other.layer is not net.layer
    assert other(X).item() == fast(X).item()


# results and refusals


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_a_step_need_not_return_anything(backend):
    def trained(prepare):
        sg.manual_seed(0)
        net = nn.Linear(2, 1)
        optimizer = sg.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()

        run = prepare(step)
        assert [run(X) for _ in range(4)] == [None] * 4
        return run, net.weight.detach().numpy()

    run, found = trained(lambda f: sg.compile(f, backend=backend))
    np.testing.assert_allclose(found, trained(lambda f: f)[1], rtol=1e-5)
    assert repr(run) != "<compiled step(x): no program yet>"
    assert "nothing is returned" in str(run.explain())


def test_a_function_that_does_nothing_is_refused():
    with pytest.raises(TraceError, match=r"test_wrapping.py:\d+: the function must return a tensor or tensors, got NoneType"):
        sg.compile(lambda x: None)(X)


def generator(x):
    yield x


async def coroutine(x):
    return x


async def stream(x):
    yield x


@pytest.mark.parametrize(("function", "text"), [
    (Net, r"^expected a function of tensors, got the class Net: compile an object of it, or its method$"),
    (generator, "^generator is a generator, .*: return a list or tuple of tensors instead"),
    (stream, "^stream is a generator"),
    (coroutine, "^coroutine is async: compile the function that computes"),
    (X, r"^expected a function of tensors, got Tensor\(1, 2\)"),
])  # fmt: skip
def test_what_is_no_function_of_tensors(function, text):
    with pytest.raises(TypeError, match=text):
        sg.compile(function)


def test_wrong_arguments_name_the_function():
    with pytest.raises(TypeError, match=r"^double\(x\): missing a required argument: 'x'$"):
        double()
    with pytest.raises(TypeError, match=r"^double\(x\): got an unexpected keyword argument 'argnums'; wrt= says in which arguments"):
        double.grad(X, argnums=0)


def test_a_function_that_calls_itself_without_end():
    def endless(x):
        return endless(x + 1)

    with pytest.raises(RecursionError):
        sg.compile(endless)(X)


def test_under_a_transform_of_jax_the_way_is_named():
    import jax

    with pytest.raises(TypeError, match=r"^x has no value: JAX traces the caller.*as_jax\(\)"):
        jax.jit(sg.compile(triple))(np.ones(3, np.float32))


def test_a_printed_loss_names_the_way():
    with pytest.raises(TraceError, match=r"item\(\).*print with debug\.print"):
        sg.compile(lambda x: print(float(x.sum())))(X)


def test_buckets_of_a_method():
    one, other = Scale(2.0), Scale(3.0)
    for n in (3, 4, 2, 7, 1):
        x = sg.ones(n, 2)
        assert one.rows(x).tolist() == [[2.0, 2.0]] * n
        assert other.rows(x).tolist() == [[3.0, 3.0]] * n
    assert one.rows is one.rows
    assert len(one.rows.recompiles()) == len(other.rows.recompiles()) == 2
    one.factor = 5.0
    assert one.rows(sg.ones(3, 2)).tolist() == [[5.0, 5.0]] * 3
    assert str(one.rows.recompiles()[-1]) == "Scale.factor: 2.0 -> 5.0"
    assert Scale.rows.__doc__ == "Each row by itself."
    assert (one.rows.__name__, str(one.rows)) == ("rows", "<compiled rows(x): 3 programs>")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_what_has_buckets(copied):
    one = Scale(2.0)
    one.rows(sg.ones(3, 2))
    one.decorated(sg.ones(2))
    other = copied(one)
    other.factor = 3.0
    assert other.decorated(sg.ones(2)).item() == 6.0
    assert other.rows(sg.ones(3, 2)).tolist() == [[3.0, 3.0]] * 3
    assert one.rows(sg.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3
    filled = copied(sg.compile(nn.Linear(2, 1), buckets={"input": 4}))
    assert filled(sg.ones(3, 2)).shape == (3, 1)
    assert len(filled.compiled.recompiles()) == 1


def test_a_method_may_be_hidden_and_shown_again():
    one = Scale(2.0)
    one.decorated = len
    assert one.decorated([1]) == 1
    del one.decorated
    assert one.decorated(sg.ones(2)).item() == 4.0
    del one.decorated
    with pytest.raises(AttributeError):
        del one.decorated


def test_a_module_with_buckets():
    net = sg.compile(nn.Sequential(nn.Linear(2, 1), nn.Dropout()), buckets={"input": 4})
    assert net.eval() is net
    assert net(sg.ones(3, 2)).shape == (3, 1)
    assert len(list(net.parameters())) == 2
