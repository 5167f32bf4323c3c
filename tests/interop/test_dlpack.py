"""DLPack both ways: memory is shared where that is safe, and copied where it is not."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap

TYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", TYPES)
def test_to_and_from_numpy_shares_memory(dtype):
    t = sg.ones(3, dtype=getattr(sg, dtype))
    array = np.from_dlpack(t)
    assert array.dtype == dtype
    assert np.shares_memory(array, t.numpy())
    back = sg.from_dlpack(array)
    assert back.dtype is t.dtype
    assert np.shares_memory(back.numpy(), array)


def test_what_is_not_contiguous_is_copied():
    base = np.arange(12.0).reshape(3, 4)
    for view in (base.T, base[::-1], base[:, ::2], base[::-1, ::-1], np.broadcast_to(base[0], (2, 4))):
        out = np.from_dlpack(wrap(view))
        np.testing.assert_array_equal(out, view)
        assert out.flags.c_contiguous
        assert not np.shares_memory(out, base)


def test_a_copy_can_be_asked_for_or_forbidden():
    t = sg.ones(2, 3)
    assert not np.shares_memory(np.from_dlpack(t, copy=True), t.numpy())
    assert not np.shares_memory(sg.from_dlpack(t, copy=True).numpy(), t.numpy())
    with pytest.raises(BufferError, match="without a copy"):
        t.t().__dlpack__(copy=False)


def test_history_is_not_exported():
    for t in (sg.ones(2, requires_grad=True), sg.ones(2, requires_grad=True) * 2):
        with pytest.raises(BufferError, match=r"Can't export tensors that require gradient, use tensor.detach\(\)"):
            np.from_dlpack(t)
    with pytest.raises(BufferError, match="require gradient"):
        sg.from_dlpack(sg.ones(2, requires_grad=True))


def test_device():
    assert sg.ones(1).__dlpack_device__() == (1, 0)


def test_capsules():
    t = sg.ones(3)
    back = sg.utils.dlpack.from_dlpack(sg.utils.dlpack.to_dlpack(t))
    assert np.shares_memory(back.numpy(), t.numpy())


def test_jax_memory_is_shared_and_never_written():
    jnp = pytest.importorskip("jax.numpy")
    theirs = jnp.arange(3.0)
    ours = sg.from_dlpack(theirs)
    assert ours.tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="read-only"):
        ours.add_(1)
    assert theirs.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(np.asarray(jnp.from_dlpack(sg.arange(6.0).reshape(2, 3).t())), [[0, 3], [1, 4], [2, 5]])
    assert (sg.asarray(theirs) * 2).tolist() == [0, 2, 4]


def test_tensors_of_jax_arrays_are_copies():
    jnp = pytest.importorskip("jax.numpy")
    for make in (sg.tensor, sg.as_tensor):
        t = make(jnp.arange(3.0))
        assert t.dtype is sg.float32
        t += 1
        assert t.tolist() == [1, 2, 3]
    assert sg.tensor(jnp.float32(2)).item() == 2
    assert sg.tensor(jnp.arange(2), dtype=sg.float64).tolist() == [0, 1]
    assert sg.tensor([jnp.ones(2), jnp.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert sg.tensor([jnp.float32(1), 2.0]).tolist() == [1, 2]
