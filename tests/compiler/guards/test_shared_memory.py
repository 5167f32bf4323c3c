"""Tensors that share memory, in every way that Python code can share it: compiled functions return and write what eager code does."""

from __future__ import annotations

import array
import ctypes
import mmap
import types

import numpy as np
import pytest

import symgrad as sg

N = 4


def numbers():
    return np.arange(1, N + 1, dtype=np.float32)


def interface(a):
    return np.asarray(types.SimpleNamespace(__array_interface__=a.__array_interface__, owner=a))


def by_address(a):
    buffer = (ctypes.c_float * N).from_address(a.ctypes.data)
    buffer.owner = a  # else nothing keeps the memory alive
    return np.ctypeslib.as_array(buffer)


def of_buffer(buffer):
    """Two arrays of one buffer that is no array."""
    found = np.frombuffer(buffer, np.float32, N), np.frombuffer(buffer, np.float32, N)
    found[0][:] = numbers()
    return found


def pair(other):
    """An array, and what `other` makes of it."""

    def make():
        a = numbers()
        return a, other(a)

    return make


def tensor_and_its_array():
    t = sg.tensor(numbers())
    return t, np.from_dlpack(t.numpy())


WAYS = {
    "apart": pair(np.copy),
    "the same array": pair(lambda a: a),
    "view": pair(lambda a: a.view()),
    "from_dlpack": pair(np.from_dlpack),
    "from_dlpack of from_dlpack": pair(lambda a: np.from_dlpack(np.from_dlpack(a)[::-1])[::-1]),
    "symgrad's from_dlpack": pair(sg.from_dlpack),
    "memoryview": pair(lambda a: np.asarray(memoryview(a))),
    "frombuffer": pair(lambda a: np.frombuffer(a, np.float32)),
    "ndarray": pair(lambda a: np.ndarray((N,), np.float32, buffer=a.data)),
    "as_strided": lambda: (lambda a: (a[1:], np.lib.stride_tricks.as_strided(a, (N - 1,), (4,))))(numbers()),
    "sliding windows": lambda: tuple(np.lib.stride_tricks.sliding_window_view(numbers(), 3, writeable=True)),
    "ctypes": pair(lambda a: np.ctypeslib.as_array((ctypes.c_float * N).from_buffer(a))),
    "ctypes by address": pair(by_address),
    "array interface": pair(interface),
    "mmap": lambda: of_buffer(mmap.mmap(-1, 4 * N)),
    "bytearray": lambda: of_buffer(bytearray(4 * N)),
    "array.array": lambda: of_buffer(array.array("f", [0] * N)),
    "memoryview twice": lambda: of_buffer(memoryview(bytearray(4 * N))),
    "other dtype": pair(lambda a: a.view(np.int32).view(np.float32)),
    "overlapping views": lambda: (lambda a: (a[:3], np.asarray(memoryview(a))[1:]))(numbers()),
    "interleaved views": lambda: (lambda a: (a[::2], np.asarray(memoryview(a))[1::2]))(numbers()),
    "adjacent views": lambda: (lambda a: (a[:2], np.asarray(memoryview(a))[2:]))(numbers()),
    "tensor and its array": tensor_and_its_array,
}  # fmt: skip
"""Name: a function that makes two arrays or tensors."""


def as_tensor(a):
    return a if isinstance(a, sg.Tensor) else sg.from_numpy(a)


def tensors(way):
    return tuple(map(as_tensor, WAYS[way]()))


def reads(compile, x, y):
    f = compile(lambda x, y: x * 2 + y)
    return lambda: f(x, y)


def writes_first(compile, x, y):
    def f(x, y):
        x += 1
        return y * 1

    f = compile(f)
    return lambda: f(x, y)


def writes_second(compile, x, y):
    def f(x, y):
        y.add_(x)
        return x * 2

    f = compile(f)
    return lambda: f(x, y)


def writes_first_after_others(compile, x, y):
    def f(x, y):
        x += 1
        return y * 1

    f = compile(f)
    for _ in range(2):
        f(sg.zeros(*x.shape), sg.zeros(*y.shape))
    return lambda: f(x, y)


def writes_captured(compile, x, y):
    def f(y):
        x.add_(1)
        return y * 1

    f = compile(f)
    return lambda: f(y)


def writes_captured_after_others(compile, x, y):
    def f(y):
        x.add_(1)
        return y * 1

    f = compile(f)
    for _ in range(3):
        f(sg.zeros(*y.shape))
    return lambda: f(y)


def writes_argument_and_reads_captured(compile, x, y):
    def f(x):
        x.add_(1)
        return y * 1

    f = compile(f)
    return lambda: f(x)


def writes_argument_and_reads_captured_after_others(compile, x, y):
    def f(x):
        x.add_(1)
        return y * 1

    f = compile(f)
    for _ in range(3):
        f(sg.zeros(*x.shape))
    return lambda: f(x)


def writes_one_of_two_captured(compile, x, y):
    def f(k):
        x.add_(1)
        return y * k

    f = compile(f)
    return lambda: f(sg.ones(1))


def parameters(x, y):
    w, u = (sg.ones(*t.shape, requires_grad=True) for t in (x, y))
    w.grad, u.grad = x, y
    return w, u


def adds_to_gradients(compile, x, y):
    w, u = parameters(x, y)

    def f(k):
        loss = (w * k).sum() + (u * u * k).sum()
        loss.backward()
        return loss.detach()

    f = compile(f)
    return lambda: f(sg.ones(1))


def adds_to_gradients_after_others(compile, x, y):
    w, u = parameters(sg.zeros(*x.shape), sg.zeros(*y.shape))

    def f(k):
        loss = (w * k).sum() + (u * u * k).sum()
        loss.backward()
        return loss.detach()

    f = compile(f)
    for _ in range(3):
        f(sg.ones(1))
    w.grad, u.grad = x, y
    return lambda: f(sg.ones(1))


def adds_to_gradients_of_arguments(compile, x, y):
    w, u = parameters(x, y)

    def f(w, u):
        loss = (w * 2).sum() + (u * u).sum()
        loss.backward()
        return loss.detach()

    f = compile(f)
    return lambda: f(w, u)


def optimizer_step(compile, x, y):
    w, u = parameters(x, y)
    optimizer = sg.optim.SGD([w, u], lr=0.5)

    def f(k):
        loss = (w * k).sum() + (u * k).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = compile(f)
    return lambda: f(sg.ones(1))


def writes_through_gradients(compile, x, y):
    w, _ = parameters(x, y)

    def f(k):
        (w * k).sum().backward()
        return y * k

    f = compile(f)
    return lambda: f(sg.ones(1))


FUNCTIONS = [
    reads, writes_first, writes_second, writes_first_after_others, writes_captured, writes_captured_after_others,
    writes_argument_and_reads_captured, writes_argument_and_reads_captured_after_others, writes_one_of_two_captured, adds_to_gradients,
    adds_to_gradients_after_others, adds_to_gradients_of_arguments, optimizer_step, writes_through_gradients,
]  # fmt: skip


def outcome(function, way, compile):
    """What three calls return, and the values of both tensors after each."""
    x, y = tensors(way)
    call = function(compile, x, y)
    return [[t.tolist() for t in (call(), x, y)] for _ in range(3)]


@pytest.mark.filterwarnings("ignore:.*(share memory|also captures|run as they are written)")
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_compiled_code_sees_shared_memory_as_eager_code_does(backend, way, function):
    wanted = outcome(function, way, lambda f: f)
    assert outcome(function, way, lambda f: sg.compile(f, backend=backend)) == wanted
