"""What random programs are made of: texts with places for names, by what the names must stand for.

    f g h  floats           i  integers           b  truth values          w  what may be written to
    l  a float made inside  z  complex numbers
    D  a dimension of {0}   K  an index into dimension 0 of {0}            S  the shape of {0}
"""

from __future__ import annotations

# numbers are exact on small halves, and there may be ties
EXACT = [
    "-{f}", "{f} * 2 - 1", "{f} + 0.5", "{f} * {f}", "{f}.square()", "{f}.detach() * {f}", "{f}.clone()", "{f}.double()", "{f}.float()",
    "{f} * 1", "{f} + 0", "0 * {f}", "1 - {f}", "{f} / 2", "2 / (0 * {f} + 1)", "{f} ** 2", "{f} ** 1", "{f} ** 0", "{f} - {f}",
    "{f} / 1", "{f}.sum()", "{f}.sum({D})", "{f}.sum({D}, keepdim=True)", "{f}.cumsum({D})", "{f}.flip({D})", "{f}.roll(1, {D})",
    "{f}.neg()", "{f}.tril()", "{f}.triu(1)", "sg.cat([{f}, {f} * 2], {D})", "sg.stack([{f}, {f} + 1], {D})",
    "{f}.repeat_interleave(2, {D})", "{f}.index_select({D}, sg.tensor([0, -1, 0]) % {0}.shape[{D}])", "{f}[[0, -1]]",
    "{f}[sg.tensor([0, 0, -1])]", "{f}.reshape(-1)", "F.pad({f}, (1, 0))", "{f}.expand(2, *{S})", "{f} * sg.ones({S})",
    "{f} + sg.arange({0}.shape[-1])", "{f}.new_zeros({S}) + {0}", "sg.full_like({f}, 0.5)", "sg.eye(2) * {f}.sum()",
    "{f} * sg.tensor(2.0)", "sg.zeros({S}, dtype={0}.dtype) + {f}.sum()", "{f} + {f}", "{f} - {g}", "{f} * {g}",
    "sg.add({f}, {g}, alpha=2)", "({f} - {g}) * {f}", "sg.lerp({f}, {g}, 0.5)", "{f}.reshape(-1) @ {f}.reshape(-1)",
    "{f}.reshape(-1, 1) @ {g}.reshape(1, -1)", "{f} @ {g}", "{f}.reshape(-1, 1) * {g}.reshape(1, -1)",
    "sg.outer({f}.reshape(-1)[:2], {g}.reshape(-1)[:3])", "sg.einsum('i,j->ij', {f}.reshape(-1)[:2], {g}.reshape(-1)[-2:])",
    "{f}.mT @ {f}", "{f} @ {f}.mT", "F.linear({f}, {g})", "sg.addcmul({f}, {g}, {f}, value=0.5)", "sg.tensordot({f}, {g}, 0)",
    "{f} * {i}", "{f} + {b}", "sg.where({b}, {f}, {g})", "sg.where({b}, {f}, 0.5)", "{f} * {b}", "{i} * 0.5", "{f}.masked_fill({b}, 2.0)",
    "{i}.float()", "{b}.double()", "{f}.gather({D}, {f}.argsort({D}))", "{f}.reshape(-1)[{i}.reshape(-1) % {0}.numel()]",
    "{f}.index_add(0, sg.zeros({0}.shape[0], dtype=sg.int64), {f})", "{f}.scatter_add(0, sg.zeros({S}, dtype=sg.int64), {f})",
    "{f}.diagonal().sum()", "{f}.trace()", "{f}.unfold(0, 1, 2).sum(-1)", "{f}.tile(2)", "{f}.select(0, {K}) + {f}",
    "{f}.narrow({D}, 0, 1)", "{f}.take_along_dim({f}.argmin({D}, keepdim=True), {D})", "sg.func.grad(lambda z: (z * z).sum())({f})",
    "sg.func.vmap(lambda z: z.sum() * z)({f})", "sg.func.jvp(lambda z: z * z, ({f},), ({f} * 2,))[1]",
    "sg.zeros_like({f}).index_put((sg.tensor([0, -1]),), {f}[0], accumulate=True)", "{f}.index_fill(0, sg.tensor([-1]), 1.5)",
    "sg.func.vjp(lambda z: z.square(), {f})[1]({f})[0]", "sg.diag_embed({f})", "{f}.movedim(0, -1) * 2", "{f}.unflatten(0, (1, -1)) * 2",
]  # fmt: skip
KINKS = [
    "{f}.abs()", "{f}.relu()", "{f}.clamp(-0.5, 1)", "{f}.sign() * {f}", "sg.where({f} > 0, {f}, {f} * {f})", "F.hardtanh({f})",
    "F.leaky_relu({f}, 0.5)", "{f}.masked_fill({f} > 0.5, 2.0)", "sg.maximum({f}, {g})", "sg.minimum({f}, {g})",
    "sg.where({f} > {g}, {f}, {g})", "{f}.amax({D})", "{f}.amin({D}, keepdim=True)", "{f}.max({D}).values", "{f}.max()", "{f}.min()",
    "{f}.sort({D}).values", "{f}.cummax({D}).values", "{f}.median({D}).values", "{f}.topk(1, {D}).values", "F.relu6({f})",
    "{f} * ({f} >= {g})", "{f}.floor() * {f}", "{f}.round() + {f}", "{f}.clamp(min=0)", "{f}.prod({D})", "F.softshrink({f})",
    "{f}.cumprod({D})", "F.threshold({f}, 0.5, 1.5)", "{f}.clamp(max={g})", "sg.aminmax({f}).max", "{f}.cummin({D}).values",
    "{f}.sort({D}, descending=True).values", "F.max_pool1d({f}.reshape(1, 1, -1), 2).reshape(-1)", "{f} ** 3",
    "F.l1_loss({f} * 2, sg.ones_like({0}))",
]  # fmt: skip
SMOOTH = [
    "{f}.sin()", "{f}.cos()", "{f}.tanh()", "{f}.sigmoid()", "({f} / 4).exp()", "({f} * {f} + 1).log()", "({f} * {f} + 0.5).sqrt()",
    "1 / ({f} * {f} + 2)", "F.softplus({f})", "F.silu({f})", "F.gelu({f})", "{f} ** 3 / 3", "{f}.atan()", "{f}.expm1() / 4", "{f}.erf()",
    "F.logsigmoid({f})", "({f} * {f} + 1) ** -0.5", "{f}.mean()", "{f}.mean({D})", "{f}.softmax({D})", "{f}.log_softmax({D})",
    "{f}.logsumexp({D})", "{f}.var({D}, correction=0)", "({f} * {f} + 1).norm(dim={D})", "{f} / ({g} * {g} + 1)",
    "sg.logaddexp({f}, {g})", "sg.atan2({f}, {g} * {g} + 1)", "({f} * {f} + 1) ** ({g} / 4)",
    "F.layer_norm({f}, {0}.shape[-1:], eps=0.5)", "{f} * 0.3 + 0.7", "F.mse_loss({f}, sg.ones_like({0}))", "({f} * {f} + 0.1).rsqrt()",
    "{f}.logcumsumexp({D})", "1.3 ** {f}", "(1 + ({f} / 2).exp()).log()", "(({f} / 2).exp().sum({D})).log()", "F.elu({f})", "{f}.asinh()",
    "sg.log1p({f} * {f})", "{f}.sinh() / 4", "F.huber_loss({f}, {0} * 0.25)", "F.normalize({f} * {f} + 1, dim={D})",
    "F.cosine_similarity({f} + 2, {g} + 2, dim={D})", "(1 - {f}.sigmoid()).log()", "F.cross_entropy({f}.reshape(1, -1), sg.tensor([0]))",
    "F.conv1d({f}.reshape(1, 1, -1), {g}.reshape(1, 1, -1)[..., :2]).reshape(-1)", "{f} * sg.sqrt(2)", "{f}.sinc()",
    "sg.linalg.inv({f}.reshape(-1)[:1].reshape(1, 1) + 3)", "sg.hypot({f}, {g} + 3)", "sg.func.grad(lambda z: z.sin().sum())({f})",
    "sg.func.hessian(lambda z: (z ** 3).sum())({f}.reshape(-1)[:2])", "{f}.std({D}, keepdim=True)",
]  # fmt: skip
VIEWS = [
    "{f}.chunk(2, {D})[-1]", "{f}.split(1, {D})[-1]", "{f}.unbind({D})[-1]",
    "{f}[{K}]", "{f}[1:]", "{f}[::2]", "{f}[..., 0]", "{f}[None]", "{f}[...]", "{f}[:, 0]", "{f}[-1:]", "{f}[:, 1:]", "{f}.t()", "{f}.mT",
    "{f}.transpose(0, {D})", "{f}.view(-1)", "{f}.reshape(-1)", "{f}.reshape({S})", "{f}.diagonal()", "{f}.chunk(2, {D})[0]",
    "{f}.split(1, {D})[0]", "{f}.unbind({D})[0]", "{f}.unsqueeze({D})", "{f}.squeeze()", "{f}.narrow({D}, 0, 1)", "{f}.flatten()",
    "{f}.detach()", "{f}.select({D}, 0)", "{f}.expand(2, *{S})", "{f}.movedim(0, -1)", "{f}.swapaxes(0, {D})", "{f}.unfold(0, 2, 1)",
    "{f}.permute(*range({0}.ndim)[::-1])", "{f}.view(1, *{S})", "{f}.unflatten(0, (1, -1))", "{f}.data", "{f}.tensor_split(2)[0]",
]  # fmt: skip
WHOLE_NUMBERS = [
    "{f}.argmax()", "{f}.argmax({D})", "{f}.argsort({D})", "({f} > 0).sum()", "{i} + 1", "{i} * {i}", "{i} % 3", "{i} // 2", "{i}.sum()",
    "-{i}", "{i}.abs()", "{i}.cumsum(0)", "{b}.sum()", "{b}.long()", "{i}.clamp(0, 2)", "sg.where({b}, {i}, 0)", "{i} & 3", "{i}.max()",
    "{i} // {i}.abs().add(1)", "{i}[{K}]", "{i}.reshape(-1)", "sg.arange(3)", "({f} * 2).long()", "{i}.int()", "{i}.flip(0)",
    "{i} - {b}.long()", "{i}.sort().values", "{i} << 1", "{i}.prod()", "{i} ** 2", "F.one_hot({i}.reshape(-1).clamp(0, 1), 2)",
    "{i}.remainder(2)", "({f} > {g}).sum(0)", "{b}.cumsum(0)", "{i}.int().cumprod(0)", "{i}.sign()", "{i}.cummax(0).values",
    "{i}.div(2, rounding_mode='trunc')", "F.threshold({i}, 0.5, 2)", "{i}.scatter(0, sg.zeros({S}, dtype=sg.int64), 3)",
    "{i}.index_add(0, sg.tensor([0]), {i}[:1])", "{b}.argmax()", "{i}.amin({D})", "sg.maximum({i}, {i} * 2)", "{i}.unique()",
    "{b}.nonzero().sum(0)", "{i}.masked_fill({b}, 2)", "{i} @ {i}", "sg.cat([{i}, {i}.int()])", "{i}.tril()", "{i}.fmod(3)",
    "{i}.clamp(min=1)", "{i}.gather(0, sg.zeros({S}, dtype=sg.int64))", "{i}.topk(1).indices", "{i}.int() // 3",
]  # fmt: skip
TRUTHS = [
    "{f} > 0", "{f} <= {g}", "{i} == 1", "~{b}", "{b} & ({f} > 0)", "{b} | {b}", "{i} > {i} * 0", "{b}.any()", "{b}.all()", "{f} != {f}",
    "{b} ^ {b}", "({f} > 0.5).any({D})", "sg.logical_not({b})", "{b}.reshape(-1)", "({f} > 0) == {b}", "sg.isfinite({f})", "{i} % 2 == 0",
    "{b}.sign()", "{b}.cummax(0).values", "{b}.index_add(0, sg.tensor([0]), {b}[:1])", "{i}.bool()", "{b} * {b}", "{b} + {b}",
    "{b}.flip(0)", "{b}.sort(0).values", "{b}.index_put((sg.tensor([0, 0]),), {b}[:1], accumulate=True)", "{i}.any(0)",
    "{b}.scatter(0, {b}.long() * 0, True)", "{b}.amax({D})", "sg.where({b}, {b}, ~{b})", "{b}.roll(1)", "{f}.isnan()",
    "{b}.masked_fill({b}, False)",
]  # fmt: skip
RANDOM = [
    "{f} + sg.rand({S}, dtype={0}.dtype)", "{f} * sg.randn({S}, dtype={0}.dtype)", "F.dropout({f}, 0.5)", "{f} + sg.randint(4, {S})",
    "{f} * sg.rand_like({f})", "sg.randn(2, 2)", "{f} + sg.randn_like({f}) * 0.5", "sg.rand(3, dtype=sg.float64) + {f}.sum()",
    "F.dropout(F.dropout({f}, 0.5), 0.5)", "{f} + sg.normal(0.0, 1.0, {S})", "{f}[sg.randperm({0}.shape[0])]",
]  # fmt: skip
EXACT_RANDOM = [
    "F.dropout({f}, 0.5)", "{f} + sg.randint(4, {S})", "{f}[sg.randperm({0}.shape[0])]", "sg.randint(3, {S}) * {f}",
]  # fmt: skip
# exact, too
WRITES = [
    "{w}.add_({g})", "{w}.mul_({g})", "{w}.sub_({g}, alpha=2)", "{w}.copy_({g})", "{w}.fill_(0.5)", "{w}.zero_()", "{w}.mul_(0.5)",
    "{w}.neg_()", "{w}[{K}] = {g}", "{w}[1:] *= 2", "{w}[..., 0] = {g}", "{w}[...] = {g}", "{w}[:, 0] += {g}", "{w}[[0, -1]] = {g}",
    "{w}.diagonal().add_(1)", "{w}.t().mul_({g})", "{w}.view(-1)[0] = 1.5", "{w}[::2].sub_({g})", "{w}.masked_fill_({b}, 0.5)",
    "{w}.add_(1)", "{w}.transpose(0, -1)[0] += 1", "{w}[0] = {w}[-1]", "{w}.reshape(-1)[1:].add_({g})", "{w}.unsqueeze(0).mul_(2)",
    "{w}.index_fill_(0, sg.tensor([0]), 0.5)", "{w}.square_()", "{w}.addcmul_({g}, {g})", "{w}[1:] = {w}[:-1]", "{w}.flatten()[0] = 2",
    "{w}.index_add_(0, sg.tensor([0]), {g}[None])", "{w}.detach().add_(1)", "{w}.narrow({D}, 0, 1).zero_()", "{w}[None, 0].add_({g})",
    "{w}.data.mul_(2)", "{w}.data[0] = 0.5", "{w}.detach()[...] = {g}", "{w}.detach().copy_({g})",
    "{w}.add_({w})", "{w}[{b}] = 0.5", "{w}.lerp_({g}, 0.5)", "{w}.div_(2)", "{w}.squeeze().add_(1)",
    "{w}.select({D}, 0).copy_({g})", "{w}.swapaxes(0, -1).add_({g})", "{w}.fill_({g}.sum())", "{w}.expand_as({w}).mul_(2)",
    "{w}.cumsum_(0)", "{w}.tril_()", "{w}.chunk(2)[0].add_(1)", "{w}.index_copy_(0, sg.tensor([0]), {g}[None])",
]  # fmt: skip
LOCAL_WRITES = [
    "{w} += {g}", "{w} *= 2", "{w} -= {g} * 0.5", "{w} /= 2", "{w}[0] += {g}",
]  # fmt: skip
KINKED_WRITES = [
    "{w}.relu_()", "{w}.clamp_(-1, 1)", "{w}.abs_()", "{w}.masked_fill_({w} > 0.5, 1.5)", "{w}.clamp_(min=0)", "{w}[{w} > 0.5] = 0.5",
]  # fmt: skip
SMOOTH_WRITES = [
    "{w}.tanh_()", "{w}.sin_()", "{w}.sigmoid_()", "{w}.mul_(0.9).add_({g}, alpha=0.1)", "{w}.div_({g} * {g} + 1)", "{w}.exp_().div_(8)",
]  # fmt: skip
INT_WRITES = [
    "{i}.add_(1)", "{i}[0] = 2", "{i}.mul_(-1)", "{i}.copy_({f})", "{b}.logical_not_()", "{b}[0] = True",
]  # fmt: skip
# what the user captures, and what is done to tensors besides computing
CALLS = [
    "Doubling.apply({f})", "Scaled.apply({f}, 2.0)", "Both.apply({f}, {f} * 2)[0]", "Both.apply({f}, {g})[1]", "Straight.apply({f})",
    "Dirty.apply({f} * 1)", "hooked({f})", "cut({f})", "if_recorded({f})", "overwritten({f})", "unsqueezed({f})", "turned({f})",
    "through_real({f}, {f})", "through_pairs({f})", "Doubling.apply({f}).detach() * {f}", "hooked(Doubling.apply({f}))",
]  # fmt: skip
SMOOTH_CALLS = ["large_and_small({f})", "Scaled.apply({f}, 0.1)", "{f}.masked_fill({b}, 1 / 3)"]
RESHAPING = [
    "{l}.unsqueeze_(0)", "{l}.t_()", "{l}.squeeze_()", "{l}.transpose_(0, {D})", "{l}.swapaxes_(0, -1)", "{l}.unsqueeze_({D})",
    "{l}.squeeze_({D})",
]  # fmt: skip
COMPLEX = [
    "sg.complex({f}, {f} * 2)", "sg.complex({f}, {g})", "{z} * 2", "{z} * {z}", "{z}.conj()", "{z} * {f}", "{z} + 1j", "{z}.clone()",
    "-{z}",
    "{z}[{K}]", "{z}.reshape(-1)", "{z}.detach() * {z}", "sg.view_as_complex(sg.stack([{f}, {f} + 1], -1))", "1j * {z}",
]  # fmt: skip
OF_COMPLEX = [
    "{z}.real", "{z}.imag", "sg.view_as_real({z})", "{z}.real * {z}.imag", "({z} * {z}.conj()).real", "({z} * {z}).imag", "{z}.sum().real",
    "sg.view_as_real({z})[..., 0]",
]  # fmt: skip
COMPLEX_WRITES = [
    "{z}.real.mul_(2)", "{z}.imag.copy_({z}.real)", "sg.view_as_real({z})[..., 0] = {g}", "{z}.mul_(2)", "{z}[0] = 1j", "{z}.real[0] = {g}",
    "{z}.imag.zero_()", "{z}.real.add_({g})", "sg.view_as_real({z}).mul_(0.5)", "{z}.mul_(1j)", "{z}.add_({z}.conj())", "{z}.imag.neg_()",
]  # fmt: skip
FLOAT_WRITES = [
    "{w}.fill_(1 / 3)", "{w}[{K}] = 0.1", "{w}.index_fill_(0, sg.tensor([0]), 0.1)", "{w}.masked_fill_({b}, 1 / 3)", "{w}[{b}] = 0.7",
    "{w}.scatter_(0, sg.zeros({S}, dtype=sg.int64), 0.1)", "{w}.add_(0.1)", "{w}.clamp_(min=0.1)", "{w}.data.fill_(0.3)",
]  # fmt: skip
CONDITIONS = [
    "{f}.sum() > 0.25", "({f} > 0.5).any()", "{f}.max() > {g}.min()", "int({i}.sum()) % 2 == 0", "{b}.all()", "{i}.reshape(-1)[0] > 0",
    "{f}.sum() > {g}.sum()", "not ({f}.sum() < 0)", "{f}.sum() > 0 and {g}.sum() < 1", "int({f}.argmax()) == 0", "bool({b}.any())",
    "{f}.requires_grad", "{f}.requires_grad and {g}.sum() > 0",
    "{f}.reshape(-1)[0] > 0", "0 < {f}.sum() < 2", "{f}.sum() >= 0 or {b}.any()",
]  # fmt: skip
ROUNDS = [
    "range(2)", "range(int({i}.abs().sum()) % 3)", "range(3)", "range(int(({f} > 0).sum()) % 3)",
]  # fmt: skip
BACKWARDS = [
    "({f} * {i}).sum().backward()", "({f} * {b}).sum().backward()", "(sg.where({b}, {f}, {g}) * {f}).sum().backward()",
    "{f}.sum().backward()", "({f} * {g}).sum().backward()", "{f}.backward(sg.ones_like({f}))",
    "({f} * {f}).sum().backward(retain_graph=True)",
]  # fmt: skip
