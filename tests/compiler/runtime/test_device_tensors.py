"""Where the numbers of tensors are: results and state of kernels stay on the device until somebody looks, and nobody sees stale ones."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad.device_tensor import is_on_device, is_unaliased, storage_of, tensor_from_storage, to_device, write_storage

nn = sg.nn


def double(x):
    return x * 2


def kernel_result(*shape):
    return sg.compile(double)(sg.ones(*shape))


# a resident tensor is a tensor like any other


def test_a_result_stays_on_the_device_until_it_is_looked_at():
    y = kernel_result(2, 3)
    assert is_on_device(y)
    assert (y.shape, y.dtype, y.ndim, y.requires_grad) == ((2, 3), sg.float32, 2, False)
    assert is_on_device(y)
    assert (y + 1).tolist() == [[3.0] * 3] * 2
    assert not is_on_device(y)
    assert type(y) is sg.Tensor


@pytest.mark.parametrize(
    "look",
    [repr, lambda t: t.numpy(), lambda t: t.tolist(), lambda t: t[0], lambda t: t.detach(), lambda t: t.data, np.asarray, lambda t: t.T],
)
def test_whoever_looks_gets_numbers(look):
    y, like = kernel_result(2, 2), sg.full((2, 2), 2.0)
    assert str(look(y)) == str(look(like))


def test_what_was_looked_at_can_be_written_to():
    y = kernel_result(3)
    y.numpy()[0] = 5
    y += 1
    assert y.tolist() == [6.0, 3.0, 3.0]


def test_a_resident_parameter_is_a_parameter():
    p = nn.Parameter(sg.zeros(2))
    to_device(p, storage_of(kernel_result(2)))
    assert is_on_device(p)
    assert p.__class__ is nn.Parameter
    assert isinstance(p, nn.Parameter)
    assert repr(p) == "Parameter containing:\ntensor([2., 2.], requires_grad=True)"
    assert type(p) is nn.Parameter


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t)), nn.Parameter])
def test_copies_of_resident_tensors_are_ordinary_ones(duplicate):
    p = nn.Parameter(sg.zeros(2))
    to_device(p, storage_of(kernel_result(2)))
    q = duplicate(p)
    assert type(q) is nn.Parameter
    assert q.tolist() == [2.0, 2.0]


def test_a_class_of_ones_own_comes_back():
    class Mine(sg.Tensor):
        def twice(self):
            return self * 2

    t = sg.zeros(2).as_subclass(Mine)
    t._base = None
    to_device(t, storage_of(kernel_result(2)))
    assert isinstance(t, Mine)
    assert t.twice().tolist() == [4.0, 4.0]
    assert type(t) is Mine


def test_threads_that_look_at_once_see_the_same_memory():
    for _ in range(20):
        y, seen = kernel_result(8), []
        barrier = threading.Barrier(4)

        def look(y=y, seen=seen, barrier=barrier):
            barrier.wait()
            seen.append(y._array)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len({id(a) for a in seen}) == 1


# who else sees the memory


def test_alone_is_who_shares_memory_with_nobody():
    x = sg.randn(3, 2)
    assert is_unaliased(x)
    for sharing in (x.detach(), x[0], x.numpy(), x.T, x.data, x.reshape(6)):
        assert not is_unaliased(x)
        del sharing
    assert is_unaliased(x)
    assert not is_unaliased(x[0])


def test_writing_is_seen_by_all_who_share_the_memory():
    x, held = sg.zeros(3), storage_of(kernel_result(3))
    view, array = x[1:], x.numpy()
    write_storage(x, held)
    assert x.tolist() == [2.0] * 3
    assert view.tolist() == [2.0] * 2
    assert array.tolist() == [2.0] * 3


def test_writing_to_who_is_alone_moves_it():
    x = sg.zeros(3)
    before = x._version
    write_storage(x, storage_of(kernel_result(3)))
    assert is_on_device(x)
    assert x._version == before + 1
    write_storage(x, np.ones(3, np.float32))
    assert not is_on_device(x)
    assert x.tolist() == [1.0] * 3


# parameters and arguments


def test_parameters_that_kernels_read_move_to_the_device_unless_they_keep_coming_back():
    net = nn.Linear(3, 2)
    fast, x = sg.compile(net), sg.ones(4, 3)
    fast(x)
    assert is_on_device(net.weight)
    for _ in range(4):
        net.weight.sum()
        assert not is_on_device(net.weight)
        fast(x)
    assert not is_on_device(net.weight)
    assert is_on_device(net.bias)
    with sg.no_grad():
        net.weight.zero_()
        net.bias.zero_()
    assert fast(x).sum().item() == 0


def test_what_a_step_reads_moves_to_the_device_beside_what_it_writes():
    total, scale = sg.zeros(3), sg.full((3,), 2.0)
    add = sg.compile(lambda x: total.add_(scale * x), backend="xla")
    for size in (2.0, 3.0):
        scale.fill_(size)
        assert not is_on_device(scale)
        for _ in range(2):  # the first call of all is the trace
            add(sg.ones(3))
        assert is_on_device(scale)
    assert total.tolist() == [10.0] * 3


def test_arguments_on_the_device_are_there_again_after_tracing():
    x = kernel_result(4)
    for use in (sg.compile(lambda x: x + 1), sg.compile(lambda x: x.sum()).grad, sg.compile(lambda x: x + sg.rand(4))):
        use(x)
        assert is_on_device(x)
    seen = []
    sg.compile(lambda x: seen.append(x.detach()) or x + 1, fallback="eager")(x)
    assert not is_on_device(x)
    assert x.tolist() == seen[0].tolist() == [2.0] * 4


# recorded results


def test_backward_through_kernels_whose_arguments_are_on_the_device():
    fast = sg.compile(lambda x, w: (x * w).sin())
    x, w = sg.linspace(0, 1, 4, dtype=sg.float64), sg.linspace(1, 2, 4, dtype=sg.float64).requires_grad_()
    h = fast(x, w)
    y = fast(h, h)
    (first,) = sg.autograd.grad(y.sum(), w, create_graph=True)
    (second,) = sg.autograd.grad(first.sum(), w)
    eager = lambda x, w: (x * w).sin()
    v = w.detach().clone().requires_grad_()
    (first_,) = sg.autograd.grad(eager(eager(x, v), eager(x, v)).sum(), v, create_graph=True)
    (second_,) = sg.autograd.grad(first_.sum(), v)
    assert sg.allclose(first, first_)
    assert sg.allclose(second, second_)


def test_a_saved_argument_that_was_written_to_is_noticed():
    fast = sg.compile(lambda x, w: x * w)
    w = sg.ones(3, requires_grad=True)
    x = kernel_result(3)
    y = fast(x, w)
    x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_going_back_twice_needs_retain_graph():
    w = sg.ones(3, requires_grad=True)
    y = sg.compile(lambda w: (w * w).sum())(w)
    y.backward(retain_graph=True)
    y.backward()
    assert w.grad.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_results_are_new_memory_also_if_they_are_arguments():
    x = sg.ones(4)
    same, again = sg.compile(lambda x: (x, x))(x)
    x += 1
    same += 5
    assert (x.tolist(), same.tolist(), again.tolist()) == ([2.0] * 4, [6.0] * 4, [1.0] * 4)


def test_new_tensors_hold_what_they_are_given():
    assert not is_on_device(tensor_from_storage(np.ones(2)))
    assert is_on_device(tensor_from_storage(storage_of(kernel_result(2))))


# donated arguments


def test_a_donated_argument_is_gone_and_its_memory_used():
    fast = sg.compile(lambda x, y: (x + 1, y.sum()), donate=True)
    fast(sg.ones(4), sg.ones(5))
    x, y = kernel_result(4), kernel_result(5)
    where = storage_of(x).unsafe_buffer_pointer()
    more, total = fast(x, y)
    assert storage_of(more).unsafe_buffer_pointer() == where
    assert (more.tolist(), total.item()) == ([3.0] * 4, 10.0)
    assert y.tolist() == [2.0] * 5  # fits no result
    for use in (lambda: x + 1, lambda: fast(x, y)):
        with pytest.raises(RuntimeError, match=r"donated to a compiled function.*clone\(\)"):
            use()


def test_what_is_needed_is_not_given_away():
    fast = sg.compile(lambda x, y: (x * y, x + y), donate=True)
    x = kernel_result(4)
    assert fast(x, x)[0].tolist() == [4.0] * 4  # twice the same
    w, h = sg.ones(4, requires_grad=True), kernel_result(4)
    product, _ = fast(h, w)  # recorded: backward needs it
    product.sum().backward()
    assert w.grad.tolist() == [2.0] * 4
    array = np.ones(4, np.float32)
    fast(sg.from_numpy(array), sg.ones(4))
    assert array.tolist() == [1.0] * 4  # memory of the host's


def test_devices_have_names():
    with pytest.raises(ValueError, match=r"device='tpu' is not there: JAX sees cpu:0"):
        sg.compile(double, device="tpu")(sg.ones(2))
    assert storage_of(sg.compile(double, device="cpu:0")(sg.ones(2))).device.platform == "cpu"


def test_kernels_run_on_several_devices():
    code = """
import symgrad as sg
from symgrad.device_tensor import storage_of
net, x = sg.nn.Linear(3, 3), sg.ones(2, 3)
there, here = sg.compile(net, device="cpu:2"), sg.compile(net)
y = there(x)
assert storage_of(y).device.id == 2 and storage_of(net.weight).device.id == 2
z = here(y)
assert storage_of(z).device.id == 0
assert sg.allclose(z, net(net(x)))
"""
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=flags)


def test_a_step_that_gets_what_is_gone_says_so():
    state = sg.ones(4)
    shown = state.numpy()

    @sg.compile
    def grow(x):
        state.add_(x)
        return x * 2

    for _ in range(3):
        grow(sg.ones(4))
    x, double_it = kernel_result(4), sg.compile(double, donate=True)
    double_it(sg.ones(4))
    double_it(x)
    with pytest.raises(RuntimeError, match="donated to a compiled function"):
        grow(x)
    assert shown.tolist() == [4.0] * 4
