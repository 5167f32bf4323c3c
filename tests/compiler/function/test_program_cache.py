"""There is one class of programs and one cache: a call, a derivative and an inspection find the same programs."""

from __future__ import annotations

import ast
import pathlib
import sys

import pytest

import symgrad as sg
from symgrad.compiler.function.compiled import Compiled
from symgrad.compiler.runtime.cache import MAX_PATHS, ProgramCache
from symgrad.compiler.runtime.program import Program

COMPILER = pathlib.Path(sys.modules[Compiled.__module__].__file__).parents[1]
X = sg.tensor([1.0, 2.0, 3.0])


def used(function, *args):
    """The function, compiled, called, and differentiated in every way."""
    fast = sg.compile(function, backend="numpy")
    for _ in range(3):
        fast(*args)
        fast.grad(*args, wrt=0)
        fast.vjp(*args, wrt=0)(1.0)
        fast.jvp(*args, wrt=0)(args[0])
    return fast


def test_there_is_one_class_of_programs():
    names = [
        node.name for folder in ("runtime", "function") for path in (COMPILER / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef) and node.name.endswith("Program")
    ]
    assert names == ["Program"]


def test_programs_are_kept_in_the_cache_alone():
    fast = used(lambda x: (x * x).sum(), X)
    collections = {name for name, x in vars(fast).items() if isinstance(x, (dict, list, set)) and not name.startswith("__")}
    assert collections == {"_fast_entries"}
    assert fast._fast_entries is fast._program_cache.fast.entries
    assert {type(p) for p in fast._program_cache.programs()} == {Program}
    assert [type(x) for x in vars(fast).values() if isinstance(x, ProgramCache)] == [ProgramCache]


def test_a_call_and_its_derivatives_share_a_program():
    x = X.clone().requires_grad_()
    fast = sg.compile(lambda x: (x * x).sum(), backend="numpy")
    fast(x)
    called = fast._latest
    fast.grad(x)
    assert fast._latest is called
    assert len(fast.recompiles()) == len(fast._program_cache.programs()) == 1


def test_a_path_is_not_differentiated_by_the_program_that_checks_it():
    x = X.clone().requires_grad_()
    fast = sg.compile(lambda x: (x * x).sum() if x.sum() > 0 else x.sum(), backend="numpy")
    fast(x)
    checks = fast._latest
    assert checks.checks_path
    assert fast.grad(x, wrt="x").tolist() == [2.0, 4.0, 6.0]
    derives = fast._latest
    assert derives is not checks
    assert len(derives.graph.outputs) == 1 < len(checks.graph.outputs)
    call = fast._bound((x,), {})
    assert fast._program_cache.lookup(call) == (checks,)
    assert fast._program_cache.lookup(call, derives=True) == (derives,)


def test_a_program_with_effects_is_no_program_for_derivatives():
    state = sg.zeros(3)
    fast = sg.compile(lambda x: state.add_(x) * 2, backend="numpy")
    fast(X), fast(X)
    call = fast._bound((X,), {})
    (program,) = fast._program_cache.lookup(call)
    assert program.runner is not None
    assert program.operation is None
    assert fast._program_cache.lookup(call, derives=True) == ()


def test_a_miss_is_explained_beginning_with_the_latest_program():
    scale = 2.0

    def f(x):
        return x * scale

    fast = sg.compile(f, backend="numpy")
    cache, call = fast._program_cache, fast._bound((X,), {})
    assert cache.explain_miss(call) is None
    fast(X)
    assert cache.explain_miss(call) is None  # its guards hold
    scale = 3.0
    assert "2.0 -> 3.0" in cache.explain_miss(call)
    fast(X)
    scale = 4.0
    assert "3.0 -> 4.0" in cache.explain_miss(call)
    assert "3.0 -> 4.0" in str((fast(X), fast.recompiles()[-1])[1])


def test_equal_graphs_share_their_kernels():
    flag = "a"

    def f(x):
        return x * 2 if flag in "ab" else x

    fast = sg.compile(f, backend="numpy")
    fast(X)
    flag = "b"
    fast(X)
    one, other = fast._program_cache.programs()
    assert one is not other
    assert one.operation is other.operation


def test_the_oldest_program_of_a_key_is_forgotten():
    scale = 0

    def f(x):
        return x * scale

    fast = sg.compile(f, backend="numpy")
    for scale in range(MAX_PATHS):
        assert fast(X).tolist() == [scale, 2 * scale, 3 * scale]
    first = fast._program_cache.programs()[-1]
    scale = MAX_PATHS
    with pytest.warns(UserWarning, match="has changed"):
        fast(X)
    assert first not in fast._program_cache.programs()
    assert len(fast._program_cache.lookup(fast._bound((X,), {}))) == MAX_PATHS


def test_forgotten_shortcuts_cost_a_lookup_and_no_trace():
    fast = used(lambda x: (x * x).sum(), X)
    traces = len(fast.recompiles())
    assert fast._program_cache.by_types
    fast.forget_fast_paths()
    assert not fast._program_cache.by_types
    assert not fast._fast_entries
    assert fast(X).item() == 14
    assert fast.grad(X, wrt=0).tolist() == [2.0, 4.0, 6.0]
    assert len(fast.recompiles()) == traces
