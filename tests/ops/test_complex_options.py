"""Options that are complex numbers, of real tensors: taken if their imaginary part is 0, else refused with the type of the tensor."""

import pytest

import symgrad as sg
from symgrad.nn import functional as F

X = sg.tensor([-1.5, 0.25, 2.0])
M = sg.tensor([[1.0, 2.0], [3.0, 5.0]])
CALLS = {
    "addcmul": lambda x, v: sg.addcmul(x, x, x, value=v),
    "addcdiv": lambda x, v: sg.addcdiv(x, x, x, value=v),
    "addmm": lambda x, v: sg.addmm(M.to(x.dtype), M.to(x.dtype), M.to(x.dtype), beta=v),
    "celu": lambda x, v: F.celu(x, v),
    "clamp": lambda x, v: sg.clamp(x, v),
    "elu": lambda x, v: F.elu(x, v),
    "fill_": lambda x, v: x.clone().fill_(v),
    "full_like": lambda x, v: sg.full_like(x, v),
    "hardshrink": lambda x, v: F.hardshrink(x, v),
    "leaky_relu": lambda x, v: F.leaky_relu(x, v),
    "lerp": lambda x, v: sg.lerp(x, 2 * x, v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "nan_to_num": lambda x, v: sg.nan_to_num(x / 0 * 0, v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "softplus": lambda x, v: F.softplus(x, v),
    "threshold": lambda x, v: F.threshold(x, v, 1.0),
}


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
@pytest.mark.parametrize("name", CALLS)
def test_complex_options_of_real_tensors(name, dtype):
    x = X.to(dtype)
    found, wanted = CALLS[name](x, 0.5 + 0j), CALLS[name](x, 0.5)
    assert found.dtype is wanted.dtype is dtype
    assert found.tolist() == wanted.tolist()
    with pytest.raises(RuntimeError, match=f"value cannot be converted to type {str(dtype).partition('.')[2]} without overflow: "):
        CALLS[name](x, 0.5 + 1j)
