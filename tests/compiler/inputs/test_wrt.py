"""In which arguments derivatives are taken, and which form they have."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np
import pytest

import symgrad as sg

X, W = sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0])


@dataclasses.dataclass
class State:
    w: sg.Tensor
    rate: float = 0.5
    steps: int = 3


class Pair(typing.NamedTuple):
    a: sg.Tensor
    b: list


def plain(tree):
    if isinstance(tree, sg.Tensor):
        return tree.tolist()
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(*map(plain, tree)) if hasattr(tree, "_fields") else type(tree)(map(plain, tree))
    return dataclasses.replace(tree, w=plain(tree.w)) if dataclasses.is_dataclass(tree) else tree


ARGUMENTS = {
    "a tensor": (lambda p, x: (p * x).sum(), W, [1, 2]),
    "a dict": (lambda p, x: (p["w"] * x).sum() + p["b"], {"w": W, "b": sg.tensor(1.0), "n": 3}, {"w": [1, 2], "b": 1, "n": None}),
    "one tensor in a dict": (lambda p, x: (p["w"] * x).sum(), {"w": W}, {"w": [1, 2]}),
    "names with dots": (lambda p, x: (p["0.w"] * x).sum(), {"0.w": W, "0.b": X}, {"0.w": [1, 2], "0.b": [0, 0]}),
    "nested": (lambda p, x: (p[0]["w"] * x * p[1][0]).sum(), [{"w": W}, (X,)], [{"w": [1, 4]}, ([3, 8],)]),
    "a named tuple": (lambda p, x: (p.a * p.b[0] * x).sum(), Pair(X, [X]), Pair([1, 4], [[1, 4]])),
    "a dataclass": (lambda p, x: (p.w * x * p.steps).sum(), State(W, 2.5), State([3, 6], 0.0, None)),
}


@pytest.mark.parametrize("wrt", ["p", 0])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_gradients_have_the_form_of_the_argument(name, wrt):
    function, p, wanted = ARGUMENTS[name]
    fast = sg.compile(function)
    for _ in range(3):
        assert plain(fast.grad(p, X, wrt=wrt)) == wanted
    value, found = fast.value_and_grad(p, X, wrt=wrt)
    assert plain(found) == wanted
    assert value.item() == function(p, X).item()
    assert plain(fast.grad(p, X, wrt=("x", wrt))[1]) == wanted
    assert plain(fast.vjp(p, X, wrt=wrt)(1.0)) == wanted


def test_a_part_is_named_by_its_path():
    fast = sg.compile(lambda p, x: (p[0]["w"] * x * p[1][0]).sum())
    p = [{"w": W}, (X,)]
    assert fast.grad(p, X, wrt="p.0.w").tolist() == [1, 4]
    assert plain(fast.grad(p, X, wrt="p.0")) == {"w": [1, 4]}
    assert plain(fast.grad(p, X, wrt="p.1")) == ([3, 8],)
    assert plain(fast.jacobian(p, X, wrt="p.0")) == {"w": [1, 4]}


def test_hessians_and_directions_in_containers():
    fast = sg.compile(lambda p, x: (p["w"] ** 2 * p["b"] * x).sum())
    p = {"w": W, "b": sg.tensor(2.0)}
    assert plain(fast.hessian(p, X, wrt="p")) == {
        "w": {"w": [[4, 0], [0, 8]], "b": [6, 16]},
        "b": {"w": [6, 16], "b": 0},
    }
    v = {"w": sg.ones(2), "b": sg.tensor(10.0)}
    assert plain(fast.hvp(p, X, v=v, wrt="p")) == {"w": [64, 168], "b": 22}
    assert plain(fast.hvp(p, X, v=(v, X), wrt=("p", "x")))[0]["b"] == 22 + 9 + 32
    assert fast.jvp(p, X, wrt="p")(v).item() == 12 + 32 + 410
    assert plain(fast.vjp(p, X, wrt="p")(2.0)) == {"w": [24, 64], "b": 82}
    with pytest.raises(ValueError, match="the tangent must be a dict of w, b, as the argument is, got a dict of w"):
        fast.jvp(p, X, wrt="p")({"w": X})
    with pytest.raises(ValueError, match="the tangent: one is needed, in the form of the argument, got 2"):
        fast.jvp(p, X, wrt="p")(X, X)
    with pytest.raises(ValueError, match=r"the tangent of p.b must be float32\[\], got"):
        fast.jvp(p, X, wrt="p")({"w": X, "b": X})


def test_positions_count_arguments():
    fast = sg.compile(lambda n, x, *more, **named: (x**n).sum() + sum((m * named["k"]).sum() for m in more))
    args = 3, X, W, X
    assert fast.grad(*args, k=W, wrt=1).tolist() == [3, 12]
    assert fast.grad(*args, k=W, wrt=2).tolist() == fast.grad(*args, k=W, wrt="more.0").tolist() == [3, 4]
    assert fast.grad(*args, k=W, wrt=-1).tolist() == fast.grad(*args, k=W, wrt="k").tolist() == [4, 6]
    assert plain(fast.grad(*args, k=W, wrt="more")) == ([3, 4], [3, 4])
    assert fast.grad(*args, k=W, wrt=0).item() == pytest.approx((X**3 * X.log()).sum().item())  # an integer is a number there
    with pytest.raises(ValueError, match=r"test_wrt.py:\d+: wrt=0 has no tensor in it: the tensor arguments are x"):
        sg.compile(lambda mode, x: x.sum()).grad("mean", X, wrt=0)
    with pytest.raises(ValueError, match=r"wrt=5: there are 5 arguments \(n, x, more.0, more.1, k\)"):
        fast.grad(*args, k=W, wrt=5)
    with pytest.raises(ValueError, match=r"wrt='z': the tensor arguments are"):
        fast.grad(*args, k=W, wrt="z")


def test_what_is_brought_along_comes_behind_the_arguments():
    layer = sg.nn.Linear(2, 1)
    fast = sg.compile(lambda x: layer(x).sum())
    assert fast.grad(X, wrt=1).tolist() == fast.grad(X, wrt="layer_weight").tolist() == [[1, 2]]
    net = sg.compile(sg.nn.Sequential(sg.nn.Linear(2, 1)))
    assert plain(net.vjp(X, wrt="0")(sg.ones(1))) == ([[1, 2]], [1])


def test_sources_and_formulas_choose_in_the_same_way():
    fast = sg.compile(lambda p, x: (p["w"] * p["b"] * x).sum())
    fast({"w": W, "b": X}, X)
    assert fast.source("grad", wrt=0) == fast.source("grad", wrt="p") == fast.source("grad", wrt=("p.w", "p.b"))
    assert str(fast.formula(wrt=1)).splitlines()[1].startswith("∂f/∂x")
    assert str(sg.derive(lambda n, x: x**n, wrt=1)(3, sg.spec(()))).splitlines()[1] == "∂f/∂x = 3*x**2"


def test_loaded_functions_have_the_same_forms(tmp_path):
    fast = sg.compile(lambda p, s, x: (p[0]["w"] * p[1][0] * s.w * x).sum())
    args = [{"w": W}, (X,)], State(X), X
    fast.export(tmp_path / "f.sgx", *args)
    loaded = sg.load_compiled(tmp_path / "f.sgx")
    assert plain(loaded.grad(*args, wrt="p")) == plain(loaded.grad(*args, wrt=0)) == plain(fast.grad(*args, wrt="p"))
    assert loaded.grad(*args, wrt="s").w.tolist() == fast.grad(*args, wrt="s").w.tolist()
    assert loaded.grad(*args, wrt="p.1.0").tolist() == fast.grad(*args, wrt="p.1.0").tolist()
    np.testing.assert_allclose(loaded.grad(*args, wrt=("x", "p"))[0].numpy(), fast.grad(*args, wrt="x").numpy())
