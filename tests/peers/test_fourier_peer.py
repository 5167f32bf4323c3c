"""Fourier transforms, eigenvalues of any matrix and searchsorted beside PyTorch: values, types, gradients, node names."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(3, 6))
COMPLEX = REAL + 1j * RNG.normal(size=(3, 6))


def compare(function, x):
    ours, theirs = sg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    got, wanted = function(sg, ours), function(torch, theirs)
    assert str(got.dtype) == str(wanted.dtype)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().resolve_conj().numpy(), atol=1e-12)
    weights = np.cos(np.arange(got.numel())).reshape(got.shape)
    (got.abs() * sg.tensor(weights)).sum().backward()
    (wanted.abs() * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.resolve_conj().numpy(), atol=1e-10)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 5, 8])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_dimension(name, n, norm):
    for x in (REAL,) if name in ("rfft", "ihfft") else (REAL, COMPLEX):
        for dim in (-1, 0):
            compare(lambda m, t, dim=dim: getattr(m.fft, name)(t, n, dim, norm), x)


@pytest.mark.parametrize("options", [{}, {"s": (3, 4), "dim": (1, 2)}, {"dim": (2, 0)}, {"norm": "ortho"}])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_several_dimensions(name, options):
    compare(lambda m, t: getattr(m.fft, name)(t, **options), RNG.normal(size=(2, 5, 4)))


@pytest.mark.parametrize("n", [4, 5])
def test_frequencies(n):
    for name in ("fftfreq", "rfftfreq"):
        got, wanted = getattr(sg.fft, name)(n, 0.5), getattr(torch.fft, name)(n, 0.5)
        assert str(got.dtype) == str(wanted.dtype)
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)
    for name in ("fftshift", "ifftshift"):
        compare(lambda m, t, name=name: getattr(m.fft, name)(t), RNG.normal(size=(n, 3)))
        compare(lambda m, t, name=name: getattr(m.fft, name)(t, 0), RNG.normal(size=(n, 3)))


@pytest.mark.parametrize("x", [REAL[:, :3], RNG.normal(size=(2, 3, 3)), COMPLEX[:, :3]], ids=["real", "batch", "complex"])
def test_eigenvalues(x):
    compare(lambda m, t: m.linalg.eigvals(t), x)
    compare(lambda m, t: m.linalg.eig(t)[1], x)


def test_refusals():
    for call in (
        lambda m: m.fft.fft(m.ones(3), norm="best"),
        lambda m: m.fft.fft(m.ones(3), n=0),
        lambda m: m.fft.fftn(m.ones(3, 3), dim=(0, 0)),
        lambda m: m.fft.fftn(m.ones(3, 3), s=(2,), dim=(0, 1)),
        lambda m: m.linalg.eig(m.ones(2, 3)),
    ):
        with pytest.raises(RuntimeError) as wanted:
            call(torch)
        with pytest.raises(RuntimeError) as got:
            call(sg)
        assert str(got.value).split(".")[0] == str(wanted.value).split(".")[0].strip()


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right):
    sequence, values = np.sort(RNG.integers(0, 6, (2, 5)).astype(float)), RNG.integers(0, 6, (2, 3)).astype(float)
    for s, v in ((sequence, values), (sequence[0], values), (sequence[0], values.astype(int))):
        got = sg.searchsorted(sg.tensor(s), sg.tensor(v), right=right)
        wanted = torch.searchsorted(torch.tensor(s), torch.tensor(v).double(), right=right)
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())
    np.testing.assert_array_equal(
        sg.bucketize(sg.tensor(values), sg.tensor(sequence[0]), right=right).numpy(),
        torch.bucketize(torch.tensor(values), torch.tensor(sequence[0]), right=right).numpy(),
    )
