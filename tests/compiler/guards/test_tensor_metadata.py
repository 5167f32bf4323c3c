"""What Python reads of a tensor besides its type and values is a condition of the program: layout, history, flags, added attributes."""

from __future__ import annotations

import pytest

import symgrad as sg

BACKENDS = ("numpy", "xla")


def views() -> list[sg.Tensor]:
    """Tensors of one type that differ in layout only."""
    return [sg.ones(2, 3), sg.ones(3, 2).T, sg.ones(2, 6)[:, ::2], sg.ones(3, 3)[1:]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.stride()[0],
        lambda x: x.stride(-1),
        lambda x: 2 if x.is_contiguous() else 3,
        lambda x: x.storage_offset(),
        lambda x: (x * 1).T.stride(0),
        lambda x: 2 if x[0].is_contiguous() else 3,
    ],
)
def test_layouts_of_arguments(read, backend):
    def f(x):
        return x * read(x)

    fast = sg.compile(f, backend=backend)
    for x in views() * 2:
        assert fast(x).tolist() == f(x).tolist()
    assert 1 <= len(fast.recompiles()) <= len(views())


@pytest.mark.parametrize("backend", BACKENDS)
def test_layouts_of_arguments_in_derivatives(backend):
    def f(x):
        return (x**2 * (2 if x.is_contiguous() else 3)).sum()

    fast = sg.compile(f, backend=backend)
    for x in views()[:3] * 2:
        y = x.detach().requires_grad_()
        f(y).backward()
        assert fast.grad(x, wrt="x").tolist() == y.grad.tolist()


def test_offsets_in_derivatives_are_refused():
    fast = sg.compile(lambda x: (x * x.storage_offset()).sum(), backend="numpy")
    with pytest.raises(sg.errors.TraceError, match=r"test_tensor_metadata.py.*clone\(\)"):
        fast.grad(sg.ones(4)[1:], wrt="x")


def test_the_layout_is_the_reason_for_a_trace():
    fast = sg.compile(lambda x: x * x.stride()[0], backend="numpy")
    fast(sg.ones(2, 3)), fast(sg.ones(3, 2).T)
    assert "the layout in memory: ((3, 1), 0) -> ((1, 2), 0)" in str(fast.recompiles())


def test_layouts_without_memory_are_those_of_new_tensors():
    d = sg.derive(lambda x: x * (x.stride()[0] if x.is_contiguous() else 100))(sg.spec((2, 3), sg.float64))
    assert d(sg.ones(2, 3, dtype=sg.float64))[0].tolist() == [[3.0] * 3] * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ask", [lambda x: x.grad_fn is None, lambda x: x.is_leaf])
def test_histories_of_arguments(ask, backend):
    def f(x):
        return x * (2 if ask(x) else 3)

    fast, w = sg.compile(f, backend=backend), sg.ones(2, requires_grad=True)
    for x in [w, w * 1] * 2:
        assert fast(x).tolist() == f(x).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_flags_of_parameters_that_are_not_used(backend):
    net = sg.nn.Sequential(sg.nn.Linear(2, 2), sg.nn.Linear(2, 1))
    net[0].requires_grad_(False)

    def f(x):
        return x * sum(p.square().sum() for p in net.parameters() if p.requires_grad)

    fast, x = sg.compile(f, backend=backend), sg.ones(1)
    for needed in (False, True, False):
        net[0].requires_grad_(needed)
        assert fast(x).tolist() == pytest.approx(f(x).tolist(), rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_types_of_tensors_that_are_only_looked_at(backend):
    layer, data, listed = sg.nn.Linear(2, 2), sg.ones(4), [sg.nn.Parameter(sg.ones(2))]

    def f(x):
        return x * len(data) * (2 if layer.weight.dtype == sg.float32 else 3) * (5 if listed[0].requires_grad else 7)

    fast, x = sg.compile(f, backend=backend), sg.ones(1)

    def change_data():
        data.data = sg.ones(8)

    for change in (lambda: None, layer.double, change_data, lambda: listed[0].requires_grad_(False)):
        change()
        assert fast(x).item() == f(x).item()


def test_parameters_that_are_replaced_in_modules_that_are_not_called():
    net = sg.nn.Sequential(sg.nn.Linear(1, 1), sg.nn.Linear(1, 1))
    fast = sg.compile(lambda x: x * sum(p.sum() for p in net.parameters()), backend="numpy")
    fast(sg.ones(1))
    net[0].weight = sg.nn.Parameter(sg.full((1, 1), 50.0))
    assert fast(sg.ones(1)).item() == pytest.approx(sum(p.sum().item() for p in net.parameters()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes_that_were_added_to_captured_tensors(backend):
    w, net = sg.nn.Parameter(sg.ones(2)), sg.nn.Linear(1, 1)
    w.scale, net.bias.scale = 2.0, 1.0

    def f(x):
        return x * w * w.scale * (11 if hasattr(w, "frozen") else 1) * sum(getattr(p, "scale", 3.0) for p in net.parameters())

    fast, x = sg.compile(f, backend=backend), sg.ones(2)
    for name, owner, value in (("scale", w, 2.0), ("scale", w, 5.0), ("frozen", w, True), ("scale", net.bias, 4.0)):
        setattr(owner, name, value)
        assert fast(x).tolist() == f(x).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes_that_were_added_to_arguments(backend):
    def f(x):
        return (x * getattr(x, "mass", 1.0)).sum()

    fast, x = sg.compile(f, backend=backend), sg.ones(2)
    for mass in (7.0, 8.0, sg.tensor(9.0), 7.0):
        x.mass = mass
        assert fast(x).item() == f(x).item()
        assert fast.grad(x, wrt="x").tolist() == [float(mass)] * 2
