"""Calls of everything that records a node, for comparisons of nodes with PyTorch's: names, the order of inputs, strides."""

from __future__ import annotations

# x, y: (3, 4); p, q in (0, 1): (3, 4); m: (3, 3), symmetric positive definite; b: (2, 3, 4); v: (4,); w: (4, 5); z: complex (3, 4);
# im: (2, 3, 6, 6); i: indices (3, 4) below 3; k: indices (4,) below 3; mask: (3, 4); F: nn.functional

CALLS = """
torch.abs(p) ; torch.acos(p) ; torch.asin(p) ; torch.asinh(p) ; torch.atan(p) ; torch.atanh(p) ; torch.ceil(p) ; torch.clone(p) ;
torch.cos(p) ; torch.cosh(p) ; torch.deg2rad(p) ; torch.digamma(p) ; torch.erf(p) ; torch.erfc(p) ; torch.erfinv(p) ; torch.exp(p) ;
torch.exp2(p) ; torch.expm1(p) ; torch.floor(p) ; torch.frac(p) ; torch.lgamma(p) ; torch.log(p) ; torch.log10(p) ; torch.log1p(p) ;
torch.log2(p) ; torch.logit(p) ; torch.neg(p) ; torch.rad2deg(p) ; torch.reciprocal(p) ; torch.relu(p) ; torch.round(p) ; torch.rsqrt(p) ;
torch.sgn(p) ; torch.sigmoid(p) ; torch.sign(p) ; torch.sin(p) ; torch.sinc(p) ; torch.sinh(p) ; torch.sqrt(p) ; torch.square(p) ;
torch.tan(p) ; torch.tanh(p) ; torch.trunc(p) ; torch.nan_to_num(p) ; torch.sum(p) ; torch.mean(p) ; torch.prod(p) ; torch.max(p) ;
torch.min(p) ; torch.amax(p) ; torch.amin(p) ; torch.std(p) ; torch.var(p) ; torch.norm(p) ; torch.median(p) ; torch.flatten(p) ;
torch.ravel(p) ; torch.t(p) ; torch.diag(p) ; torch.tril(p) ; torch.triu(p) ; torch.diagonal(p) ; torch.msort(p) ; torch.nansum(p) ;
torch.nanmean(p) ; torch.fliplr(p) ; torch.flipud(p) ; torch.logdet(p) ; torch.slogdet(p) ; torch.det(p) ; torch.inverse(p) ;
torch.cholesky_inverse(p) ; torch.trace(p) ; torch.rot90(p) ; torch.atleast_3d(p) ; torch.add(x, y) ; torch.sub(x, y) ; torch.mul(x, y) ;
torch.div(x, y) ; torch.atan2(x, y) ; torch.hypot(x, y) ; torch.maximum(x, y) ; torch.minimum(x, y) ; torch.fmax(x, y) ;
torch.fmin(x, y) ; torch.pow(x, y) ; torch.remainder(x, y) ; torch.fmod(x, y) ; torch.logaddexp(x, y) ; torch.logaddexp2(x, y) ;
torch.xlogy(x, y) ; torch.copysign(x, y) ; torch.true_divide(x, y) ; torch.floor_divide(x, y) ; torch.dist(x, y) ; torch.cdist(x, y) ;
torch.kron(x, y) ; x + y ; x - y ; x * y ; x / y ; x ** y ; x + 2 ; x - 2 ; x * 2 ; x / 2 ; x ** 2 ; x % 2 ; 2 + p ; 2 - p ; 2 * p ;
2 / p ; 2 ** p ; F.relu(x) ; F.relu6(x) ; F.elu(x) ; F.selu(x) ; F.celu(x) ; F.gelu(x) ; F.silu(x) ; F.mish(x) ; F.softplus(x) ;
F.softsign(x) ; F.hardtanh(x) ; F.hardswish(x) ; F.hardsigmoid(x) ; F.hardshrink(x) ; F.softshrink(x) ; F.tanhshrink(x) ;
F.logsigmoid(x) ; F.leaky_relu(x) ; F.glu(x) ; F.sigmoid(x) ; F.tanh(x) ; F.rrelu(x) ; F.normalize(x) ; F.gelu(x, approximate='tanh') ;
F.threshold(x, 0.1, 2.) ; F.prelu(x, v) ; F.softmax(x, 1) ; F.log_softmax(x, 1) ; F.softmin(x, 1) ; torch.softmax(x, 0) ;
torch.logsumexp(x, 0) ; torch.cumsum(x, 0) ; torch.cumprod(x, 0) ; torch.cummax(x, 0)[0] ; torch.cummin(x, 0)[0] ;
torch.logcumsumexp(x, 0) ; torch.sort(x)[0] ; torch.sort(x, stable=True)[0] ; torch.topk(x, 2)[0] ; torch.kthvalue(x, 2)[0] ;
torch.mode(x)[0] ; torch.sum(x, 0) ; torch.sum(x, (0, 1)) ; torch.mean(x, 0) ; torch.prod(x, 0) ; torch.max(x, 0)[0] ;
torch.min(x, 0)[0] ; torch.amax(x, 0) ; torch.median(x, 0)[0] ; torch.std(x, 0) ; torch.var(x, 0) ; torch.var_mean(x)[0] ;
torch.std_mean(x)[0] ; torch.var_mean(x)[1] ; torch.norm(x, dim=0) ; torch.norm(x, 1) ; torch.norm(x, p=float('inf')) ;
torch.linalg.norm(x) ; torch.linalg.vector_norm(x, 3) ; torch.linalg.matrix_norm(x) ; torch.aminmax(x)[0] ; torch.quantile(x, 0.3) ;
torch.nanmedian(x) ; torch.renorm(x, 2, 0, 1.) ; torch.clamp(x, 0, 1) ; torch.clamp(x, min=0) ; torch.clamp(x, max=0) ;
torch.clamp(x, y, y + 1) ; torch.clamp_min(x, 0) ; x.clamp(min=y) ; torch.lerp(x, y, 0.3) ; torch.lerp(x, y, p) ; torch.addcmul(x, y, p) ;
torch.addcdiv(x, y, p) ; torch.add(x, y, alpha=2) ; torch.sub(x, y, alpha=2) ; torch.rsub(x, y) ; torch.pow(x, 3) ; torch.pow(2., x) ;
torch.pow(p, q) ; torch.float_power(p, 2) ; torch.xlogy(p, 2.) ; torch.xlogy(2., p) ; torch.special.entr(p) ; torch.special.ndtri(p) ;
torch.special.xlog1py(p, q) ; torch.special.expit(x) ; torch.polygamma(1, p) ; torch.where(mask, x, y) ; torch.where(mask, x, 0.) ;
x.view(4, 3) ; x.reshape(4, 3) ; x.t().reshape(12) ; x.flatten() ; b.flatten(1) ; b.unflatten(2, (2, 2)) ; x.unsqueeze(0) ;
b[:1].squeeze() ; b[:1].squeeze(0) ; b[:1].squeeze((0,)) ; x.transpose(0, 1) ; b.permute(2, 0, 1) ; x.t() ; x.T ; b.mT ; b.movedim(0, 2) ;
b.swapaxes(0, 1) ; x.expand(2, 3, 4) ; x.expand_as(b) ; x.repeat(2, 1) ; x.tile(2) ; x.repeat_interleave(2) ; x.repeat_interleave(2, 0) ;
x.flip(0) ; x.roll(1) ; x.roll(1, 0) ; x.rot90() ; x.narrow(0, 1, 2) ; x.select(0, 1) ; x.unbind()[1] ; x.split(2)[1] ;
x.split([1, 2])[1] ; x.chunk(2)[1] ; x.tensor_split(2)[0] ; x.hsplit(2)[0] ; x.vsplit(3)[0] ; x.unfold(1, 2, 1) ; x.diagonal() ;
x.diag() ; v.diag() ; x.diag_embed() ; torch.diagflat(x) ; x.as_strided((2, 2), (1, 2)) ; x.view_as(y) ; x.contiguous() ;
x.t().contiguous() ; x.clone() ; x.double() ; x.to(torch.float64) ; x.half() ; x.detach() + x ; x.tril() ; x.triu() ; x.trace() ;
torch.linalg.cross(b[:, :, :3], b[:, :, 1:]) ; torch.cat([x, y]) ; torch.cat([x, y], 1) ; torch.stack([x, y]) ; torch.hstack([x, y]) ;
torch.vstack([x, y]) ; torch.dstack([x, y]) ; torch.column_stack([x, y]) ; torch.atleast_2d(v) ; torch.broadcast_to(v, (3, 4)) ;
torch.meshgrid(v, v, indexing='ij')[0] ; torch.block_diag(x, y) ; torch.cartesian_prod(v, v) ; torch.combinations(v) ; torch.vander(v) ;
torch.split_with_sizes(x, [1, 2])[0] ; torch.diff(x) ; torch.diff(x, n=2) ; torch.gradient(x)[0] ; torch.trapezoid(x) ;
torch.cumulative_trapezoid(x) ; x[0] ; x[0:2] ; x[:, 1] ; x[..., None] ; x[None] ; x[::2] ; x[1:, 2:] ; x[k] ; x[k, k] ; x[mask] ;
x[0][1] ; x[0, 1] ; torch.gather(x, 0, i) ; torch.index_select(x, 0, k) ; torch.masked_select(x, mask) ; torch.take(x, k) ;
torch.take_along_dim(x, i, 0) ; torch.masked_fill(x, mask, 2.) ; x.masked_fill(mask, v[0]) ; x.masked_scatter(mask, y) ;
x.scatter(0, i, y) ; x.scatter(0, i, 2.) ; x.scatter_add(0, i, y) ; x.index_add(0, k[:3], y) ; x.index_copy(0, k[:3] * 0 + k3, y) ;
x.index_fill(0, k, 2.) ; x.index_fill(0, k, v[0]) ; x.index_put((k,), v) ; x.select_scatter(v, 0, 1) ; x.slice_scatter(y[:1], 0, 1, 2) ;
x.diagonal_scatter(v[:3]) ; F.embedding(k, x) ; F.embedding_bag(k, x, torch.tensor([0, 2])) ; x @ w ; x.mm(w) ; x.matmul(v) ;
v.matmul(w) ; v.dot(v + 1) ; v @ v ; x.mv(v) ; torch.outer(v, v) ; torch.ger(v, v) ; b.bmm(b.mT) ; b @ w ; b @ v ; torch.addmm(m, m, m) ;
torch.addmm(v[:3], m, m + 1, beta=2) ; torch.addmv(v[:3], x, v) ; torch.addbmm(m, b, b.mT) ;
torch.baddbmm(b[:, :, :3], b, b.mT[:, :, :3]) ; torch.addr(x, v[:3], v) ; torch.einsum('ij,jk->ik', x, w) ; torch.tensordot(x, w, 1) ;
torch.inner(x, y) ; torch.linalg.multi_dot([x, w, w.t()]) ; torch.chain_matmul(x, w) ; torch.vdot(v, v) ; F.linear(x, w.t()) ;
F.linear(x, w.t(), torch.cat([v, v])[:5]) ; F.linear(b, w.t(), torch.cat([v, v])[:5]) ; F.bilinear(x, y, torch.stack([m3, m3]), None) ;
torch.matrix_power(m, 3) ; F.pairwise_distance(x, y) ; F.cosine_similarity(x, y) ; torch.linalg.inv(m) ; torch.linalg.det(m) ;
torch.linalg.slogdet(m)[1] ; torch.logdet(m) ; torch.linalg.cholesky(m) ; torch.linalg.solve(m, x) ; torch.linalg.eigvalsh(m) ;
torch.linalg.eigh(m)[0] ; torch.linalg.svdvals(x) ; torch.linalg.qr(x.t())[0] ; torch.linalg.pinv(x) ; torch.linalg.lstsq(m, x)[0] ;
torch.linalg.solve_triangular(m, x, upper=True) ; torch.linalg.matrix_exp(m) ; torch.cholesky_solve(x, m) ; torch.trace(m) ;
torch.linalg.lu_factor(m)[0] ; F.conv2d(im, torch.stack([im[0, :, :2, :2]])) ; F.conv1d(im[0], im[0][:, :, :2]) ;
F.conv_transpose2d(im, im[0][:, None, :2, :2]) ; F.max_pool2d(im, 2) ; F.max_pool1d(im[0], 2) ; F.avg_pool2d(im, 2) ;
F.avg_pool1d(im[0], 2) ; F.adaptive_avg_pool2d(im, 2) ; F.adaptive_max_pool2d(im, 2) ; F.adaptive_avg_pool1d(im[0], 2) ;
F.lp_pool2d(im, 2, 2) ; F.layer_norm(x, (4,)) ; F.layer_norm(x, (4,), v, v) ; F.batch_norm(im, None, None, training=True) ;
F.batch_norm(im, v[:3].detach(), v[:3].detach().abs()) ; F.group_norm(im, 3) ; F.instance_norm(im) ; F.rms_norm(x, (4,)) ;
F.local_response_norm(im, 2) ; F.pad(im, (1, 1)) ; F.pad(im, (1, 1), 'reflect') ; F.pad(im, (1, 1, 1, 1), 'replicate') ;
F.pad(im, (1, 1), 'circular') ; F.unfold(im, 2) ; F.fold(F.unfold(im, 2), (6, 6), 2) ; F.interpolate(im, scale_factor=2) ;
F.interpolate(im, scale_factor=2, mode='bilinear') ; F.interpolate(im[0], scale_factor=2, mode='linear') ;
F.interpolate(im, scale_factor=2, mode='bicubic') ; F.pixel_shuffle(torch.cat([im, im[:, :1]], 1), 2) ; F.pixel_unshuffle(im, 2) ;
F.grid_sample(im, im.permute(0, 2, 3, 1)[..., :2]) ; F.scaled_dot_product_attention(b, b, b) ; F.dropout(x, 0.5) ; F.dropout(x, 0.) ;
F.one_hot(k) * v[0] ; F.max_unpool2d(*F.max_pool2d(im, 2, return_indices=True), 2) ; F.mse_loss(x, y) ;
F.mse_loss(x, y, reduction='none') ; F.l1_loss(x, y) ; F.smooth_l1_loss(x, y) ; F.huber_loss(x, y) ;
F.binary_cross_entropy(p, q.detach()) ; F.binary_cross_entropy_with_logits(x, q.detach()) ; F.nll_loss(x, k3) ; F.cross_entropy(x, k3) ;
F.cross_entropy(x, q) ; F.kl_div(x, p) ; F.poisson_nll_loss(x, p) ; F.gaussian_nll_loss(x, y, p) ;
F.hinge_embedding_loss(x, x.detach().sign()) ; F.soft_margin_loss(x, x.detach().sign()) ; F.margin_ranking_loss(x, y, x.detach().sign()) ;
F.multi_margin_loss(x, k3) ; F.cosine_embedding_loss(x, y, torch.ones(3)) ; F.triplet_margin_loss(x, y, p) ;
F.multilabel_soft_margin_loss(x, q.detach()) ; torch.view_as_complex(x.reshape(3, 2, 2)) ; torch.view_as_real(z) ; z.real ; z.imag ;
z.abs() ; z.angle() ; z.conj() ; torch.complex(x, y) ; torch.polar(p, q) ; z * 2 ; z @ z.mH ; z.exp() ; z.sum() ; torch.fft.fft(x) ;
torch.fft.rfft(x) ; torch.fft.ifft(z) ; torch.fft.irfft(z) ; torch.fft.fft2(x) ; torch.fft.fftshift(x) ; torch.real(z) ; z.H ;
z.resolve_conj() ; x.clone().add_(y) ; x.clone().sub_(1) ; x.clone().mul_(y) ; x.clone().div_(2) ; x.clone().pow_(2) ; x.clone().exp_() ;
x.clone().relu_() ; x.clone().sigmoid_() ; x.clone().tanh_() ; x.clone().zero_() ; x.clone().fill_(2.) ; x.clone().copy_(y) ;
x.clone().clamp_(0, 1) ; x.clone().masked_fill_(mask, 2.) ; x.clone().scatter_(0, i, y) ; x.clone().index_add_(0, k3, y) ;
x.clone().t_() ; x.clone().transpose_(0, 1) ; x.clone().unsqueeze_(0) ; x.clone().squeeze_() ; x.clone().addcmul_(y, p) ;
x.clone().addcdiv_(y, p) ; x.clone().lerp_(y, .5) ; x.clone().neg_() ; x.clone().sqrt_() ; x.clone().sin_() ;
x.clone().fill_diagonal_(1.) ; x.clone().tril_() ; x.clone().cumsum_(0) ; x.clone().swapaxes_(0, 1) ; x.clone().fill_(v[0]) ;
x.clone().normal_()
""".replace("\n", " ").strip().split(" ; ")


def namespace(torch):
    """Leaves of the same values in both libraries, and what the calls name."""

    def grid(*shape, add=0.0):
        count = 1
        for n in shape:
            count *= n
        numbers = (torch.arange(float(count)) * 0.7 + add).sin()
        return numbers.reshape(shape)

    m = grid(3, 3)
    made = {
        "x": grid(3, 4), "y": grid(3, 4, add=1.0), "p": grid(3, 4, add=0.3) * 0.4 + 0.5, "q": grid(3, 4, add=2.0) * 0.4 + 0.5,
        "m": m @ m.t() + torch.eye(3) * 2, "b": grid(2, 3, 4), "v": grid(4), "w": grid(4, 5), "m3": grid(4, 4),
        "im": grid(2, 3, 6, 6), "z": torch.complex(grid(3, 4), grid(3, 4, add=1.0)),
    }  # fmt: skip
    leaves = {name: t.detach().clone().requires_grad_() for name, t in made.items()}
    i = torch.arange(12).reshape(3, 4) % 3
    fixed = {"i": i, "k": torch.tensor([0, 2, 1, 1]), "k3": torch.tensor([0, 2, 1]), "mask": i == 1}
    return {**leaves, **fixed, "torch": torch, "F": torch.nn.functional}
