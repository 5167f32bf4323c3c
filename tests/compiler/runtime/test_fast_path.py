"""Calls like an earlier one take the fast path, and nobody can tell by the results."""

from __future__ import annotations

import sys
import threading
import weakref

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.runtime.fast_path import TargetsByType
from symgrad.device_tensor import is_on_device, tensor_from_storage
from symgrad.mode import active_observers

nn, optim = sg.nn, sg.optim


def on_device(*values):
    """A tensor as a kernel leaves it where it was computed."""
    import jax

    return tensor_from_storage(jax.device_put(sg.tensor(values).numpy()))


def ready(f, *args):
    """A compiled function whose next call takes the fast path."""
    fast = sg.compile(f)
    for _ in range(3):
        fast(*args)
    assert fast._fast_entries[len(args)].tables
    return fast


def test_tensors_on_the_device_go_straight_to_the_executable(monkeypatch):
    x, y = on_device(1.0, 2.0), on_device(3.0, 4.0)
    fast = ready(lambda x, y: x * y + 1, x, y)
    monkeypatch.setattr(fast, "_dispatch", None)
    result = fast(x, y)
    assert is_on_device(result)
    assert result.tolist() == [4.0, 9.0]
    assert not result.requires_grad


def test_whoever_asks_for_gradients_gets_them():
    fast = ready(lambda x: (x * x).sum(), on_device(1.0, 2.0))
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = sg.compile(lambda x: x * 3)(x)
    assert is_on_device(y)
    fast(y).backward()
    assert x.grad.tolist() == [18.0, 36.0]


@pytest.mark.parametrize("other", [[1.0, 2.0, 3.0], [1, 2]])
def test_other_types_take_the_slow_path(other):
    fast = ready(lambda x: x * 2, on_device(1.0, 2.0))
    assert fast(on_device(*other)).tolist() == [2 * v for v in other]
    assert len(fast.recompiles()) == 2
    with pytest.raises(TypeError, match="too many positional arguments"):
        fast(on_device(1.0, 2.0), on_device(1.0, 2.0))


def test_who_looks_for_nan_finds_it_in_a_call_and_in_a_derivative():
    x = on_device(-1.0, 2.0)
    fast = ready(lambda x: sg.log(x).sum(), x)
    for _ in range(2):
        fast.grad(x, wrt=0)
    with sg.debug.nans(), pytest.raises(FloatingPointError, match="log made a NaN"):
        fast(x)
    root = sg.compile(lambda x: sg.sqrt(x).sum())
    zero = on_device(-1.0, 0.0)
    for _ in range(2):
        root.grad(zero, wrt=0)
    with sg.debug.nans(), pytest.raises(FloatingPointError):
        root.grad(zero, wrt=0)


def test_inside_of_another_compiled_function_it_is_ordinary_code():
    w = on_device(1.0, 2.0)
    double = ready(lambda x: x * 2, w)
    outer = sg.compile(lambda x: x + double(w))
    for factor in (1, 3, 5):
        w.copy_(sg.tensor([1.0, 2.0]) * factor)
        assert outer(sg.ones(2)).tolist() == [1 + 2 * factor, 1 + 4 * factor]


def test_whoever_looked_on_is_counted_until_he_stops():
    before = active_observers.count
    seen = []

    def look():
        with sg.debug.nans():
            seen.append(active_observers.count)
            with sg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), sg.autograd.set_detect_anomaly(True):
                seen.append(active_observers.count)
            sg.compile(lambda x: x * 2)(sg.ones(2))
            seen.append(active_observers.count)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for t in threads:
        t.start()
        t.join()
    assert seen == [before + 1] * 6
    assert active_observers.count == before
    with pytest.raises(ZeroDivisionError):
        sg.compile(lambda x: 1 / 0)(sg.ones(2))
    assert active_observers.count == before


def test_a_variable_of_the_closure_that_was_deleted_is_missed_as_in_eager_code():
    def make():
        scale, weight = 2.0, sg.ones(2, requires_grad=True)
        optimizer = optim.SGD([weight], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (scale * x * weight).sum()
            loss.backward()
            optimizer.step()
            return loss

        def forget():
            nonlocal scale
            del scale

        return step, lambda x: scale * x, forget

    step, plain, forget = make()
    steps, fast, x = sg.compile(step), sg.compile(plain), sg.ones(2)
    for _ in range(4):
        steps(x), fast(x)
    forget()
    for f in (steps, fast):
        with pytest.raises(NameError, match="scale"):
            f(x)


def test_a_function_may_delete_a_variable_of_its_closure_and_is_warned():
    def make():
        scale = 2.0

        def once(x):
            nonlocal scale
            y = scale * x
            del scale
            return y

        return once

    with pytest.warns(UserWarning, match="closure cell scale is changed while the function is traced"):
        assert sg.compile(make())(sg.ones(2)).tolist() == [2, 2]


def test_compiled_modules_have_what_the_module_has_and_functions_do_not():
    net = sg.compile(nn.Linear(2, 3))
    assert [tuple(p.shape) for p in net.parameters()] == [(3, 2), (3,)]
    assert net.eval() is net
    assert net.in_features == 2
    with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
        net.unheard_of  # noqa: B018  (reading it is the test)
    with pytest.raises(AttributeError, match="has no attribute 'parameters'"):
        sg.compile(lambda x: x).parameters  # noqa: B018  (the same)


def total(*xs):
    found = xs[0]
    for x in xs[1:]:
        found = found + x
    return found * 2


def of_tree(tree):
    return total(*tree["pair"], *tree["rest"].values())


def calls_of(run):
    """How many functions a call runs once it is settled, Python's and C's."""
    for _ in range(4):
        run()
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count - 2  # run and setprofile


def named(xs):
    return {f"x{i}": x for i, x in enumerate(xs)}


@pytest.mark.parametrize("count", [1, 10, 50])
def test_how_many_functions_a_call_runs_on_the_device(count):
    """len, get, run, get, hold, new; and one append for each leaf: that is all there is between the caller and the executable."""
    xs = [on_device(1.0, 2.0) for _ in range(count)]
    plain, by_dictionary = sg.compile(total), sg.compile(lambda xs: total(*xs.values()))
    by_name = sg.compile(lambda **xs: total(*xs.values()))
    d = named(xs)
    assert calls_of(lambda: plain(*xs)) <= 6 + count
    assert calls_of(lambda: by_dictionary(d)) <= 11 + count
    assert calls_of(lambda: by_name(**d)) <= 9 + count
    tree = {"pair": [on_device(1.0, 2.0), on_device(1.0, 2.0)], "rest": d}
    of = sg.compile(of_tree)
    assert calls_of(lambda: of(tree)) <= 20 + count


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 10])
def test_how_many_functions_a_call_with_arrays_runs(dtype, count):
    xs = [np.ones(4, dtype) for _ in range(count)]
    fast = sg.compile(lambda *xs: total(*xs))
    assert calls_of(lambda: fast(*xs)) <= 13 + count
    mixed = [x if i % 2 == 0 else 0.5 for i, x in enumerate([*xs, np.ones(4, dtype)])]
    assert calls_of(lambda: fast(*mixed)) <= 14 + count


def test_which_arguments_require_grad_is_part_of_the_key():
    x, w, v = (on_device(1.0, 2.0) for _ in range(3))
    fast = sg.compile(lambda x, w, v: (x * w * v * v).sum())
    w.requires_grad_()
    few = calls_of(lambda: fast.value_and_grad(x, w, v, wrt="w"))
    assert calls_of(lambda: fast.value_and_grad(x, w, v)) <= few + 1  # a function of ours makes the tuple of gradients
    assert few <= 17
    assert len(fast.value_and_grad(x, w, v)[1]) == 1
    v.requires_grad_()
    for _ in range(3):
        assert [g.tolist() for g in fast.grad(x, w, v)] == [[1.0, 8.0], [2.0, 16.0]]
    w.requires_grad_(False)
    for _ in range(3):
        assert [g.tolist() for g in fast.grad(x, w, v)] == [[2.0, 16.0]]
    v.requires_grad_(False)
    for _ in range(3):
        assert len(fast.grad(x, w, v)) == 3


def test_the_number_of_programs_makes_no_difference():
    fast = sg.compile(lambda x, y: x * y + 1)
    pairs = [(on_device(*map(float, range(n))), on_device(2.0)) for n in range(1, 30)]
    with pytest.warns(UserWarning, match="has come in 9 shapes"):
        results = [fast(x, y) for x, y in pairs]
    assert [r.tolist()[-1] for r in results] == [2.0 * n + 1 for n in range(29)]
    for x, y in pairs[::4]:
        assert calls_of(lambda x=x, y=y: fast(x, y)) <= 13
        assert fast(x, y).tolist() == [2.0 * i + 1 for i in range(len(x))]
    assert len(fast.recompiles()) == len(pairs)


def test_programs_are_told_apart_by_every_leaf_and_by_dtype():
    fast = sg.compile(total)
    shapes = [((2,), (2,)), ((2,), (1,)), ((1,), (2,)), ((1,), (1,)), ((2, 1), (2,)), ((2, 1), (2, 1))]
    for _ in range(3):
        for a, b in shapes:
            for dtype in (np.float32, np.float64):
                found = fast(np.full(a, 2, dtype), np.full(b, 3, np.float32))
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, np.broadcast_to(dtype(10), np.broadcast_shapes(a, b)))
    assert len(fast.recompiles()) == 12


def test_the_same_tensor_twice_is_not_taken_for_two():
    fast = sg.compile(lambda a, b: a * b)
    a, b = on_device(1.0, 2.0), on_device(3.0, 4.0)
    for _ in range(3):
        assert fast(a, a).tolist() == [1.0, 4.0]
    for _ in range(3):
        assert fast(a, b).tolist() == [3.0, 8.0]
        assert fast(b, b).tolist() == [9.0, 16.0]
    x, y = sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0])
    host = sg.compile(lambda a, b: a * b, backend="numpy")
    for _ in range(3):
        assert host(x, x).tolist() == [1.0, 4.0]
        assert host(x, y).tolist() == [3.0, 8.0]


def test_code_that_compares_with_none_or_a_class_asks_for_no_arguments():
    fast = ready(lambda x, y: x * 2 if y is not None and type(y) is not dict else x, on_device(1.0), on_device(2.0))
    assert not fast._fast_entries[2].has_repeated_leaves


def test_whether_operations_are_recorded_is_part_of_the_key():
    fast = sg.compile(lambda x: x * 2 if sg.is_grad_enabled() else x * 3)
    x = on_device(1.0)
    for _ in range(3):
        assert fast(x).item() == 2
        with sg.no_grad():
            assert fast(x).item() == 3


def test_numbers_and_arrays_are_told_apart():
    """A Python number is weak, an array of one number is not: their programs give other types."""
    fast, x = sg.compile(lambda x, s: x * s), np.ones(2, np.float32)
    for _ in range(3):
        assert fast(x, 2.0).dtype == np.float32
        assert fast(x, np.full(1, 2.0)).dtype == np.float64
        assert fast(x, sg.tensor([2.0], dtype=sg.float64)).dtype == sg.float64
        assert fast(x, np.float64(2.0)).tolist() == [2.0, 2.0]
        assert fast(sg.ones(2), 2.0).tolist() == [2.0, 2.0]


def test_keywords_in_any_order_are_the_arguments_that_they_name():
    fast = sg.compile(lambda a, b: a - 2 * b)
    x, y = on_device(5.0), on_device(1.0)
    for _ in range(3):
        assert fast(a=x, b=y).item() == 3
        assert fast(b=x, a=y).item() == -9
        assert fast(x, b=y).item() == 3


def test_an_array_may_be_written_to_as_soon_as_the_call_returns():
    fast = sg.compile(lambda x, s: x * 2 + s)
    x = np.ones(1 << 16)
    for i in range(100):
        x[:] = i
        found = fast(x, 1.0)
        x[:] = -1
        assert (found == 2 * i + 1).all()
        found[:] = 0  # it is the caller's own


def test_an_array_that_the_function_captures_is_read_at_every_call():
    data = np.arange(3.0)
    shared = sg.from_numpy(data)
    fast = sg.compile(lambda x: x * shared)
    for i in range(4):
        data[0] = i
        assert fast(sg.ones(3, dtype=sg.float64)).tolist() == [i, 1.0, 2.0]


@pytest.mark.parametrize("size", [3, 1000])
def test_small_results_are_on_the_host_if_the_kernel_reads_host_memory(size):
    """A small array that the function captures is copied to the device, and a large one is read where it is."""
    data = np.ones(size, np.float32)
    shared = sg.from_numpy(data)
    fast = ready(lambda x: (x * shared).sum(), on_device(2.0))
    result = fast(on_device(2.0))
    assert is_on_device(result) == (size == 3)
    assert result.item() == 2 * data.sum()


def test_the_setting_of_64_bit_numbers_is_the_callers():
    import jax

    fast = sg.compile(lambda x: x * 2)
    for _ in range(3):
        assert fast(np.ones(2)).dtype == np.float64
        with pytest.raises((ValueError, TypeError)):
            fast(np.ones(2).astype(object))
    assert jax.numpy.ones(2).dtype == np.float32
    with jax.enable_x64(True):
        fast(np.ones(2))
        assert jax.numpy.ones(2).dtype == np.float64


def test_fast_paths_do_not_keep_arguments():
    fast = sg.compile(lambda d: (d["x"] ** 2).sum())
    x = sg.ones(3)
    kept = weakref.ref(x)
    for _ in range(3):
        fast({"x": x}), fast.grad({"x": x}, wrt="d"), fast.hessian({"x": x}, wrt="d"), fast.jacobian({"x": x}, wrt="d")
    del x
    assert kept() is None


def test_what_was_asked_for_may_be_made_anew_at_every_call():
    fast, x = sg.compile(lambda x, y: (x * x * y).sum()), on_device(1.0, 2.0)
    for i in range(200):
        names = ["x", "y"][i % 2 :]
        found = fast.grad(x, x * 1, wrt=tuple(names))
        assert len(found) == len(names)
        assert found[-1].tolist() == [1.0, 4.0]
        assert len(fast.grad(x, x * 1, wrt=names)) == len(names)
    with pytest.raises(ValueError, match="truth value"):
        fast.grad(x, x * 1, wrt=(True,))


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_arrays_of_jax_go_straight_to_the_executable(monkeypatch, backend):
    import jax.numpy as jnp

    fast = sg.compile(lambda p, y: (p["a"] * y + p["b"]).sum(), backend=backend)
    f = sg.compile(lambda x: x, backend=backend)
    a, b, y = jnp.arange(3.0), jnp.ones(3), np.float32([1, 2, 3])
    for _ in range(2):
        assert fast({"a": a, "b": b}, y).item() == 11
        assert fast.grad({"a": a, "b": b}, y, wrt="y").tolist() == [0, 1, 2]
        assert f(a).tolist() == [0, 1, 2]
    monkeypatch.setattr(fast, "_dispatch", None)
    for x in (a, a + 1):
        found = fast({"a": x, "b": b}, y)
        assert isinstance(found, sg.Tensor)
        assert found.item() == 11 + 6 * (x is not a)
    same = f(a)
    same.add_(1)
    assert same.tolist() == [1, 2, 3]
    assert a.tolist() == [0, 1, 2]


def test_a_result_does_not_share_memory_with_an_array_of_jax_that_it_equals():
    import jax.numpy as jnp

    a = jnp.arange(4.0)
    same = sg.compile(lambda x: x)
    given = [same(a) for _ in range(3)][-1]
    step = sg.compile(lambda: given.add_(1))  # which is given the memory of what it writes to
    for _ in range(3):
        step()
    assert given.tolist() == [3, 4, 5, 6]
    assert a.tolist() == [0, 1, 2, 3]


def test_settings_are_compared_by_value_and_objects_by_identity(monkeypatch):
    class Mode:
        rate = 2

    fast, x, mode = sg.compile(lambda x, n, mode: x * n * mode.rate, backend="numpy"), sg.ones(2), Mode()
    for _ in range(2):
        fast(x, 1000, mode)
    other = Mode()
    monkeypatch.setattr(fast, "_dispatch", lambda args, kwargs: "the slow path")
    assert fast(x, int("1000"), mode).tolist() == [2000, 2000]  # an equal number, and another object
    assert fast(x, 1000.0, mode) == fast(x, 1000, other) == "the slow path"


def test_a_table_without_targets_misses():
    """A call in another thread may find the table before its first target is added."""
    assert TargetsByType().lookup([np.ones(2)]) is None
