"""Options of NumPy's functions on tensors: as in NumPy, or refused by name. None is ignored."""

import numpy as np
import pytest

import symgrad as sg

A = np.arange(6.0).reshape(2, 3)
HONOURED = {
    "rot90": lambda a: np.rot90(a, k=3), "rot90 axes": lambda a: np.rot90(a, 1, (1, 0)), "clip": lambda a: np.take(a, [9, -9], mode="clip"),
    "wrap": lambda a: np.take(a, [7, -4], axis=1, mode="wrap"), "zeros_like": lambda a: np.zeros_like(a, np.int64, "C"),
}  # fmt: skip
REFUSED = {
    "order": lambda a: np.ravel(a, order="F"), "order of copy": lambda a: np.copy(a, order="F"),
    "reflect_type": lambda a: np.pad(a, 1, mode="reflect", reflect_type="odd"), "deg": lambda a: np.angle(a, deg=True),
    "offset": lambda a: np.trace(a, offset=1), "initial": lambda a: np.sum(a, initial=1.0),
    "initial of max": lambda a: np.max(a, initial=9.0),
    "where": lambda a: np.sum(a, where=a > 1), "mean": lambda a: np.var(a, mean=2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", HONOURED)
def test_honoured(name):
    found, wanted = HONOURED[name](sg.tensor(A)), HONOURED[name](A)
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    with pytest.raises(TypeError, match=rf"numpy\.\w+ on tensors .*{name.partition(' ')[0]}"):
        REFUSED[name](sg.tensor(A))
