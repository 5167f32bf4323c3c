"""Every kind of container goes through every door that takes containers, and comes out in the form in which it went in."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.pytree import children, flatten, is_value, leaves, map_leaves, paths, places, structure_key, unflatten
from symgrad.utils.checkpoint import checkpoint

Pair = collections.namedtuple("Pair", "first second")


@dataclass
class Point:
    first: Any
    second: Any


@dataclass(frozen=True)
class Frozen:
    first: Any
    second: Any
    note: Any = field(default=None)


class Named(dict):
    """A dict of a user's own."""


KINDS = {
    "dict": lambda a, b: {"first": a, "second": b},
    "OrderedDict": lambda a, b: collections.OrderedDict(first=a, second=b),
    "defaultdict": lambda a, b: collections.defaultdict(list, first=a, second=b),
    "subclass of dict": lambda a, b: Named(first=a, second=b),
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "named tuple": Pair,
    "dataclass": Point,
    "frozen dataclass": Frozen,
    "with None": lambda a, b: [a, None, {"b": b, "c": None}],
    "nested": lambda a, b: {"p": Pair(Point([a], None), (Frozen(b, collections.OrderedDict()),))},
    "empty ones": lambda a, b: ([], a, {}, (b, ())),
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


def numbers():
    return sg.tensor([1.0, 2.0, 3.0]), sg.tensor([4.0, 5.0, 6.0])


def form(tree):
    return structure_key(flatten(tree, is_value)[1])


def assert_like(tree, found, *wanted):
    """`found` has the form of `tree`, and the values `wanted`."""
    assert form(found) == form(tree)
    for x, y in zip(leaves(found), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-6)


def loss(tree):
    a, b = leaves(tree)
    return (a * a * b).sum()


A, B = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
GRADIENT = (2 * A * B, A * A)


def doubled(tree):
    return map_leaves(lambda t: t * 2, tree)


# doors


def grad_of_func(tree):
    return sg.func.grad(loss)(tree), GRADIENT


def value_and_grad_of_func(tree):
    return sg.func.value_and_grad(loss)(tree)[1], GRADIENT


def auxiliary_of_func(tree):
    return sg.func.grad(lambda t: (loss(t), doubled(t)), has_aux=True)(tree)[1], (2 * A, 2 * B)


def vjp_of_func_in(tree):
    _, pull = sg.func.vjp(loss, tree)
    return pull(sg.tensor(1.0))[0], GRADIENT


def vjp_of_func_out(tree):
    value, pull = sg.func.vjp(lambda x: map_leaves(lambda t: t * x, tree), sg.tensor(2.0))
    (found,) = pull(tree)
    np.testing.assert_allclose(found.numpy(), (A * A).sum() + (B * B).sum())
    return value, (2 * A, 2 * B)


def jvp_of_func(tree):
    return sg.func.jvp(doubled, (tree,), (tree,))[1], (2 * A, 2 * B)


def jacrev_in(tree):
    return sg.func.jacrev(loss)(tree), GRADIENT


def jacrev_out(tree):
    return sg.func.jacrev(lambda x: map_leaves(lambda t: t * x, tree))(sg.tensor(2.0)), (A, B)


def jacfwd_in(tree):
    return sg.func.jacfwd(loss)(tree), GRADIENT


def vmap_over(tree):
    return sg.func.vmap(doubled)(tree), (2 * A, 2 * B)


def vmap_with_prefix(tree):
    return sg.func.vmap(doubled, in_dims=(map_leaves(lambda _: 0, tree),), out_dims=map_leaves(lambda _: 0, tree))(tree), (2 * A, 2 * B)


def vmap_compiled(tree):
    return sg.compile(sg.func.vmap(doubled))(tree), (2 * A, 2 * B)


def scan_carry(tree):
    return sg.scan(lambda c, _: (doubled(c), None), tree, length=3)[0], (8 * A, 8 * B)


def scan_xs_and_ys(tree):
    return sg.scan(lambda c, x: (c, doubled(x)), sg.tensor(0.0), tree)[1], (2 * A, 2 * B)


def while_carry(tree):
    start = (sg.tensor(0), tree)
    return sg.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, doubled(c[1])), start)[1], (8 * A, 8 * B)


def fori_carry(tree):
    return sg.fori_loop(0, 3, lambda i, c: doubled(c), tree), (8 * A, 8 * B)


def cond_result(tree):
    return sg.cond(sg.tensor(True), doubled, lambda t: t, tree), (2 * A, 2 * B)


def scan_compiled(tree):
    return sg.compile(lambda t: sg.scan(lambda c, _: (doubled(c), None), t, length=3)[0])(tree), (8 * A, 8 * B)


def while_compiled(tree):
    return sg.compile(lambda t: while_carry(t)[0])(tree), (8 * A, 8 * B)


def cond_compiled(tree):
    result = sg.compile(lambda t: sg.cond(leaves(t)[0].sum() > 0, doubled, lambda t: map_leaves(lambda x: x * 3, t), t))(tree)
    return result, (2 * A, 2 * B)


def compiled(tree):
    fast = sg.compile(doubled)
    fast(tree)
    return fast(tree), (2 * A, 2 * B)


def compiled_gradient(tree):
    fast = sg.compile(loss)
    fast.value_and_grad(tree, wrt="tree")
    return fast.value_and_grad(tree, wrt="tree")[1], GRADIENT


def compiled_vjp(tree):
    return sg.compile(doubled).vjp(tree, wrt="tree")(tree), (2 * A, 2 * B)


def compiled_jvp(tree):
    return sg.compile(doubled).jvp(tree, wrt="tree")(tree), (2 * A, 2 * B)


def as_jax(tree):
    return sg.compile(doubled).as_jax()(tree), (2 * A, 2 * B)


def from_jax(tree):
    return sg.from_jax(doubled)(tree), (2 * A, 2 * B)


def checkpointed(tree):
    return checkpoint(doubled, tree), (2 * A, 2 * B)


DOORS = [
    grad_of_func, value_and_grad_of_func, auxiliary_of_func, vjp_of_func_in, vjp_of_func_out, jvp_of_func, jacrev_in, jacrev_out, jacfwd_in,
    vmap_over, vmap_with_prefix, vmap_compiled, scan_carry, scan_xs_and_ys, while_carry, fori_carry, cond_result, scan_compiled,
    while_compiled, cond_compiled, compiled, compiled_gradient, compiled_vjp, compiled_jvp, as_jax, from_jax,
    checkpointed,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_container_comes_out_as_it_went_in(make, door):
    tree = make(*numbers())
    found, wanted = door(tree)
    assert_like(tree, found, *wanted)


def test_a_file_takes_the_container_and_gives_it_back_by_its_names(make, tmp_path):
    """A file names no class of a user's: dicts come back as dicts, named tuples and dataclasses as tuples with the same names."""
    tree = make(*numbers())
    path = tmp_path / "doubled.sgx"
    sg.compile(doubled).export(path, tree)
    loaded = sg.load_compiled(path)
    found = loaded(tree)
    for x, y in zip(leaves(found), (2 * A, 2 * B), strict=True):
        np.testing.assert_allclose(x.numpy(), y)
    assert keys(flatten(found)[1]) == keys(flatten(tree)[1])
    for x, y in zip(leaves(loaded.vjp(tree, wrt="tree")(found)), (4 * A, 4 * B), strict=True):
        np.testing.assert_allclose(x.numpy(), y)


def keys(structure):
    """The keys and names of a structure, without its classes."""
    inner = children(structure)
    return structure if inner is None else [(k, keys(v)) for k, v in inner]


def test_derive_takes_the_container(make):
    tree = make(*numbers())
    gradients = sg.derive(loss, wrt="tree")(tree).gradients
    assert list(gradients) == paths(flatten(tree)[1], "tree")


def test_checkpoint_drops_what_a_container_holds(make):
    runs = []

    def run(x):
        runs.append(x)
        return make((x * x).exp(), x * x * x)

    x = sg.tensor([1.0, 2.0], requires_grad=True)
    sum(t.sum() for t in leaves(checkpoint(run, x))).backward()
    assert len(runs) == 2
    expected = 2 * x.detach() * (x.detach() ** 2).exp() + 3 * x.detach() ** 2
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-6)


def swapped(tree):
    """The tree with the entries of its dicts in the opposite order."""
    return {k: tree[k] for k in reversed(tree)}


def test_entries_of_dicts_are_matched_by_their_keys():
    a, b = numbers()
    tree, cotangent = {"a": a, "b": b}, {"b": sg.ones(3) * 10, "a": sg.ones(3)}
    product = lambda t: {"a": t["a"] * 2, "b": t["b"] * 3}
    tangent = sg.func.jvp(product, (tree,), (cotangent,))[1]
    (gradient,) = sg.func.vjp(product, tree)[1](cotangent)
    fast = sg.compile(product)
    found = [tangent, gradient, fast.vjp(tree, wrt="t")(cotangent), fast.jvp(tree, wrt="t")(cotangent)]
    found.append(sg.scan(lambda c, _: (swapped(product(c)), None), cotangent, length=1)[0])
    for x in found:
        np.testing.assert_allclose(x["a"].numpy(), [2.0, 2.0, 2.0])
        np.testing.assert_allclose(x["b"].numpy(), [30.0, 30.0, 30.0])
    turn = lambda x: {"a": x, "b": -x} if x > 1 else {"b": -x, "a": x}
    found = sg.func.vmap(turn)(a)
    np.testing.assert_allclose(found["a"].numpy(), a.numpy())
    np.testing.assert_allclose(found["b"].numpy(), -a.numpy())
    found = sg.func.vmap(lambda t: t["a"] + t["b"], in_dims=({"b": None, "a": 0},))({"a": a, "b": sg.tensor(1.0)})
    np.testing.assert_allclose(found.numpy(), a.numpy() + 1)


def test_another_form_of_tangents_is_refused():
    tree = {"a": sg.ones(2), "b": sg.ones(2)}
    with pytest.raises(RuntimeError, match=r"tangents\[0\] must be a dict of a, b, as the argument is, got a dict of a, c"):
        sg.func.jvp(doubled, (tree,), ({"a": sg.ones(2), "c": sg.ones(2)},))
    with pytest.raises(RuntimeError, match="the cotangent must be a dict of a, b, as the result is, got a dict of a, c"):
        sg.func.vjp(doubled, tree)[1]({"a": sg.ones(2), "c": sg.ones(2)})
    with pytest.raises(ValueError, match="the result of an example must be a dict of b, as the first is, got a dict of a"):
        sg.func.vmap(lambda x: {"a": x} if x > 1 else {"b": x})(sg.tensor([1.0, 2.0]))


def test_an_object_without_tensors_stays_the_object_that_it_is():
    class Extra(Point):
        pass

    config = Extra(1, 2)
    config.more = 3
    x = sg.tensor([1.0, 2.0])
    found = sg.func.vmap(lambda x, config: x * config.more, in_dims=(0, None))(x, config)
    np.testing.assert_allclose(found.numpy(), [3.0, 6.0])
    assert sg.func.grad(lambda x: (x.sum(), config), has_aux=True)(x)[1] is config
    assert sg.cond(sg.tensor(True), lambda c: sg.tensor(c.more), lambda c: sg.tensor(0), config) == 3


def test_structures_print_and_their_leaves_have_places():
    _, structure = flatten({"w": [Pair(1.0, Point(2.0, None))], 3: (4.0,)})
    assert repr(structure) == "{'w': [Pair(first=*, second=Point(first=*, second=None))], 3: (*,)}"
    assert places(structure, "batch") == ["batch['w'][0].first", "batch['w'][0].second.first", "batch[3][0]"]
    assert unflatten(structure, [1, 2, 3]) == {"w": [Pair(1, Point(2, None))], 3: (3,)}
