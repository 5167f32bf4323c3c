"""Functions that went through a file."""

import numpy as np

import symgrad as sg


def roundtrip(function, tmp_path, *args, **kwargs):
    sg.compile(function).export(tmp_path / "f.sgx", *args, **kwargs)
    return sg.load_compiled(tmp_path / "f.sgx")


def same(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
    assert found.dtype == expected.dtype
