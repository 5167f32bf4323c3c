"""The node of every operation beside PyTorch's: its name, its inputs in order, and whether the result is contiguous."""

from __future__ import annotations

import warnings

import pytest
from node_calls import CALLS, namespace

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

OTHERWISE = set(
    """
torch.diag(p)
torch.rot90(p)
torch.kron(x, y)
2 / p
F.rrelu(x)
torch.sort(x, stable=True)[0]
torch.quantile(x, 0.3)
x.clamp(min=y)
torch.add(x, y, alpha=2)
torch.sub(x, y, alpha=2)
x.t().reshape(12)
b[:1].squeeze((0,))
x.T
x.repeat_interleave(2)
x.repeat_interleave(2, 0)
x.rot90()
x.diag()
x[1:, 2:]
x[0, 1]
torch.masked_select(x, mask)
torch.take(x, k)
x.masked_scatter(mask, y)
x.select_scatter(v, 0, 1)
x.slice_scatter(y[:1], 0, 1, 2)
x.diagonal_scatter(v[:3])
F.embedding_bag(k, x, torch.tensor([0, 2]))
v.matmul(w)
b @ w
b @ v
torch.addbmm(m, b, b.mT)
torch.baddbmm(b[:, :, :3], b, b.mT[:, :, :3])
torch.addr(x, v[:3], v)
torch.einsum('ij,jk->ik', x, w)
torch.tensordot(x, w, 1)
torch.inner(x, y)
torch.linalg.multi_dot([x, w, w.t()])
torch.chain_matmul(x, w)
torch.vdot(v, v)
F.linear(b, w.t(), torch.cat([v, v])[:5])
F.bilinear(x, y, torch.stack([m3, m3]), None)
torch.matrix_power(m, 3)
F.pairwise_distance(x, y)
torch.cholesky_solve(x, m)
F.max_pool1d(im[0], 2)
F.avg_pool1d(im[0], 2)
F.adaptive_max_pool2d(im, 2)
F.adaptive_avg_pool1d(im[0], 2)
F.instance_norm(im)
F.pad(im, (1, 1, 1, 1), 'replicate')
F.unfold(im, 2)
F.fold(F.unfold(im, 2), (6, 6), 2)
F.interpolate(im, scale_factor=2)
F.interpolate(im, scale_factor=2, mode='bilinear')
F.interpolate(im[0], scale_factor=2, mode='linear')
F.interpolate(im, scale_factor=2, mode='bicubic')
F.pixel_shuffle(torch.cat([im, im[:, :1]], 1), 2)
F.pixel_unshuffle(im, 2)
F.scaled_dot_product_attention(b, b, b)
F.max_unpool2d(*F.max_pool2d(im, 2, return_indices=True), 2)
F.cross_entropy(x, q)
F.soft_margin_loss(x, x.detach().sign())
F.multi_margin_loss(x, k3)
z.real
z.imag
torch.polar(p, q)
torch.fft.fft(x)
torch.fft.rfft(x)
torch.fft.ifft(z)
torch.fft.irfft(z)
torch.fft.fft2(x)
torch.real(z)
x.clone().t_()
x.clone().transpose_(0, 1)
x.clone().unsqueeze_(0)
x.clone().squeeze_()
x.clone().fill_diagonal_(1.)
x.clone().swapaxes_(0, 1)
x.clone().fill_(v[0])
x.clone().normal_()
""".strip().splitlines()
)
"""Calls that are made of other steps here than in PyTorch, so that the last node has another name or other inputs."""
MISSING = {
    'torch.dist(x, y)',
    'torch.renorm(x, 2, 0, 1.)',
    'x.as_strided((2, 2), (1, 2))',
    'torch.block_diag(x, y)',
    'torch.cartesian_prod(v, v)',
    'torch.combinations(v)',
    'torch.vander(v)',
    'torch.split_with_sizes(x, [1, 2])[0]',
    'torch.gradient(x)[0]',
    'torch.trapezoid(x)',
    'torch.cumulative_trapezoid(x)',
    'torch.linalg.lstsq(m, x)[0]',
    'torch.linalg.matrix_exp(m)',
    'torch.linalg.lu_factor(m)[0]',
    'F.grid_sample(im, im.permute(0, 2, 3, 1)[..., :2])',
}
"""Calls of functions that symgrad does not have."""
LAYOUT = set(
    """
torch.rot90(p)
2 ** p
F.logsigmoid(x)
F.rrelu(x)
torch.cummax(x, 0)[0]
torch.cummin(x, 0)[0]
torch.pow(2., x)
x.view(4, 3)
x.rot90()
F.rms_norm(x, (4,))
torch.view_as_complex(x.reshape(3, 2, 2))
z.angle()
torch.fft.fft(x)
torch.fft.rfft(x)
torch.fft.ifft(z)
torch.fft.irfft(z)
x.clone().t_()
x.clone().transpose_(0, 1)
x.clone().swapaxes_(0, 1)
""".strip().splitlines()
)
"""Calls whose result is contiguous in PyTorch, and not here, for transposed inputs."""


def result(torch, text, transposed=False):
    names = namespace(torch)
    if transposed:
        for name in ("x", "y", "p", "q", "z", "w", "m3"):
            names[name] = names[name].t().contiguous().t()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = eval(text, names)  # texts of this test
    return names, found[0] if isinstance(found, tuple) else found


def node(torch, text):
    """The name of the last node, and of what it leads to: leaves by their names here."""
    names, found = result(torch, text)
    leaves = {id(t): name for name, t in names.items()}
    ends = []
    for end, index in found.grad_fn.next_functions:
        name = type(end).__name__
        ends.append(leaves[id(end.variable)] if name == "AccumulateGrad" else None if end is None else (name, index))
    return type(found.grad_fn).__name__, ends


def runs(text):
    try:
        return result(torch, text)[1].grad_fn is not None
    except (RuntimeError, TypeError, AttributeError):
        return False


@pytest.mark.parametrize("text", [text for text in dict.fromkeys(CALLS) if text not in OTHERWISE | MISSING and runs(text)])
def test_nodes_are_named_and_joined_as_in_pytorch(text):
    assert node(sg, text) == node(torch, text)


@pytest.mark.parametrize("text", [text for text in dict.fromkeys(CALLS) if text not in LAYOUT | MISSING and runs(text)])
def test_a_result_that_pytorch_can_view_can_be_viewed(text):
    theirs = result(torch, text, transposed=True)[1]
    if theirs.is_contiguous():
        assert result(sg, text, transposed=True)[1].is_contiguous()
    assert result(torch, text)[1].is_contiguous() <= result(sg, text)[1].is_contiguous()
