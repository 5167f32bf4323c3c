"""A complex number does not lose its imaginary part in silence where a real one is stored or computed with: not eagerly, not compiled."""

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.application import apply
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing.samples import samples

F = sg.nn.functional
FIRST = sg.tensor([0])


def assigned(index):
    def program(x, s):
        y = x.clone()
        y[index(x)] = s
        return y

    return program


STORED = {
    "fill_": lambda x, s: x.clone().fill_(s), "full": lambda x, s: sg.full((2,), s, dtype=x.dtype),
    "full_like": lambda x, s: sg.full_like(x, s), "new_full": lambda x, s: x.new_full((2,), s),
    "y[0]": assigned(lambda x: 0), "y[:1]": assigned(lambda x: slice(1)), "y[mask]": assigned(lambda x: x > 0),
    "y[indices]": assigned(lambda x: FIRST), "y[...]": assigned(lambda x: ...),
    "fill_diagonal_": lambda x, s: x.expand(2, 2).clone().fill_diagonal_(s),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s), "masked_fill_": lambda x, s: x.clone().masked_fill_(x > 0, s),
    "scatter": lambda x, s: x.scatter(0, FIRST, s), "scatter value": lambda x, s: x.clone().scatter_(0, FIRST, value=s),
    "scatter add": lambda x, s: x.scatter(0, FIRST, s, reduce="add"),
    "clamp": lambda x, s: x.clamp(s, 5), "clamp max": lambda x, s: x.clamp(max=s), "clamp_": lambda x, s: x.clone().clamp_(s, 5),
    "threshold": lambda x, s: F.threshold(x, 2.0, s), "pad": lambda x, s: F.pad(x, (1, 1), value=s), "elu": lambda x, s: F.elu(x, s),
    "nan_to_num": lambda x, s: x.nan_to_num(s), "leaky_relu": lambda x, s: F.leaky_relu(x, s),
    "addcmul": lambda x, s: sg.addcmul(x, x, x, value=s), "addcdiv": lambda x, s: sg.addcdiv(x, x, x, value=s),
    "addmm": lambda x, s: sg.addmm(sg.eye(2), sg.eye(2), sg.eye(2) * x, beta=s), "lerp": lambda x, s: x.lerp(x, s),
}  # fmt: skip
NEVER = {
    "index_fill": lambda x, s: x.index_fill(0, FIRST, s), "alpha": lambda x, s: sg.add(x, x, alpha=s),
    "sub_ alpha": lambda x, s: x.clone().sub_(x, alpha=s), "tensor": lambda x, s: sg.tensor([s, 1.0], dtype=x.dtype),
    "add_": lambda x, s: x.clone().add_(s),
}  # fmt: skip
"""What takes no complex number at all."""
NUMBERS = {"Python": 1 + 2j, "NumPy": np.complex64(1 + 2j), "SymPy": 1 + 2 * sympy.I}
LIVES = {
    "eager": lambda f, x, s: f(x, s),
    "numpy": lambda f, x, s: sg.compile(f, backend="numpy")(x, s),
    "xla": lambda f, x, s: sg.compile(f, backend="xla")(x, s),
    "constant": lambda f, x, s: sg.compile(lambda x: f(x, s), backend="numpy")(x),
    "formula": lambda f, x, s: sg.derive(lambda x: f(x, s))(x),
}


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("name", [*STORED, *NEVER])
def test_refused(name, life):
    """The message is about the number, and not the one of a kernel that met it."""
    for dtype in (sg.float32, sg.float64):
        for number in NUMBERS.values():
            with pytest.raises((RuntimeError, TypeError), match=r"[cC]omplex|without overflow|1\+2j") as caught:
                LIVES[life]({**STORED, **NEVER}[name], sg.ones(2, dtype=dtype), number)
            assert not any(word in str(caught.value) for word in ("ufunc", "float() argument", "the kernel", "Cannot cast"))


@pytest.mark.parametrize("life", ["eager", "numpy", "xla"])
@pytest.mark.parametrize("name", STORED)
def test_a_complex_number_without_an_imaginary_part_is_a_real_one(name, life):
    x = sg.tensor([1.0, -1.0])
    found, wanted = LIVES[life](STORED[name], x, 0.5 + 0j), STORED[name](x, 0.5)
    assert found.dtype is wanted.dtype
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


@pytest.mark.parametrize("name", [name for name in STORED if "scatter" not in name])
def test_complex_tensors_keep_complex_numbers(name):
    x = sg.ones(2, dtype=sg.complex64)
    try:
        wanted = STORED[name](x, 1 + 2j)
    except (NotImplementedError, TypeError, RuntimeError):
        return  # functions of real tensors
    assert wanted.dtype is sg.complex64
    np.testing.assert_array_equal(sg.compile(STORED[name], backend="numpy")(x, 1 + 2j).numpy(), wanted.numpy())


def test_a_program_does_not_carry_a_complex_number_over_from_a_real_one():
    """Which number has no imaginary part is asked at every call."""
    c = sg.compile(lambda x, s: x.clone().fill_(s), backend="numpy")
    assert c(sg.ones(2), 3 + 0j).tolist() == [3, 3]
    assert c(sg.ones(2), 4 + 0j).tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="without overflow"):
        c(sg.ones(2), 4 + 1j)


def test_complex_tensors_as_fill_values():
    """As in PyTorch a tensor of one number is cast by fill_ and by plain indices, and refused where its number is taken."""
    s = sg.tensor(1 + 2j)
    for name in ("masked_fill", "masked_fill_", "full_like", "full", "y[mask]", "y[indices]"):
        for life in ("eager", "numpy"):
            with pytest.raises(RuntimeError, match="without overflow"):
                LIVES[life](STORED[name], sg.ones(2), s)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.attrs and samples(row)])
def test_no_row_takes_a_complex_attribute_beside_real_operands(name):
    row = TABLE[name]
    for args, attrs in samples(row):
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        if any(a.dtype.kind == "c" for a in arrays):
            continue
        for key in [key for key, value in attrs.items() if type(value) is float]:
            with pytest.raises(RuntimeError, match="without overflow"):
                apply(row, tuple(wrap(a) if isinstance(a, np.ndarray) else a for a in args), {**attrs, key: 1 + 2j})
