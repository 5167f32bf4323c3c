"""Further programs as a PyTorch user writes them: in place, views, hooks, Functions, double backward, complex numbers, func."""

from __future__ import annotations

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def numbers(torch, *shape, add=0.0, grad=True):
    count = 1
    for n in shape:
        count *= n
    return ((torch.arange(float(count), dtype=torch.float64) * 0.7 + add).sin().reshape(shape) + 1.5).requires_grad_(grad)


def lines(text):
    """Programs of one expression each: `x` is a vector of 3, `m` a matrix 2 by 3, both leaves; the gradients of the sum are shown, too."""
    for line in text.strip().splitlines():
        name, _, source = line.partition(": ")
        PROGRAMS[f"line_{name}"] = _line(source)


def _line(source):
    code = compile(source, "line", "eval")  # texts of this file

    def run(torch):
        x, m = numbers(torch, 3), numbers(torch, 2, 3, add=0.4)
        y = eval(code, {"torch": torch, "x": x, "m": m, "F": torch.nn.functional})
        if not y.requires_grad:
            return y
        total = (y.real + 2 * y.imag if y.is_complex() else y * y).sum()
        (first,) = torch.autograd.grad(total, x, create_graph=True, allow_unused=True)
        total.backward(retain_graph=True)
        if first is None or not first.requires_grad:
            return y, x.grad, m.grad
        return y, x.grad, m.grad, torch.autograd.grad((first * first).sum(), x, allow_unused=True)[0]

    return run


lines("""
clone_add: x.clone().add_(m[0]).mul_(2)
write_row: m.clone().index_copy_(0, torch.tensor([1]), x[None] * 2)
chained_views: m.clone().view(3, 2).t()[0].mul_(x)
masked: m.clone().masked_fill_(m > 1.5, 0.0) * x
where_chain: torch.where(x > 1.4, x.exp(), x.log()).cumsum(0)
expand_sum: x.expand(4, 3).sum(0) * m[1]
outer_trace: torch.outer(x, x).trace() + m.prod()
softmax_log: (m * x).softmax(1).log().sum(0)
norms: torch.stack([x.norm(), x.norm(1), m.norm(dim=1).sum(), x.norm(float("inf"))])
complex_polar: torch.polar(x, m[0]) * (1 + 2j) * x
complex_abs: torch.view_as_complex(torch.stack([x, m[1]], -1)).abs().log()
complex_power: (x * (1 - 1j)) ** 2 / m[0]
complex_conj: (torch.complex(x, m[0]) @ torch.complex(m[1], x).conj()).reshape(1)
complex_exp: (x * 1j).exp().sum()
real_imag: torch.complex(x, m[0]).exp().real * torch.complex(m[1], x).imag
einsum: torch.einsum("i,ji,k->jk", x, m, x)
solve: torch.linalg.solve(torch.outer(x, x) + torch.eye(3, dtype=torch.float64) * 3, m.t())
inverse: torch.linalg.inv(torch.outer(x, x) + torch.eye(3, dtype=torch.float64) * 2) @ m[0]
logdet: torch.logdet(torch.outer(x, x) + torch.eye(3, dtype=torch.float64)).reshape(1)
cholesky: torch.linalg.cholesky(torch.outer(x, x) + torch.eye(3, dtype=torch.float64) * 4)
eigenvalues: torch.linalg.eigvalsh(torch.outer(x, x) + torch.diag(x * 2))
singular_values: torch.linalg.svdvals(m * x)
sorting: (m * x).flatten().sort(descending=True)[0] * torch.arange(6, dtype=torch.float64)
top: (m * x).topk(2)[0].prod(1)
maxima: torch.maximum(m, x).amax(0) + torch.minimum(m, x).amin(0)
ties: torch.stack([x, x]).max(0)[0] + torch.stack([x, x]).amax(0)
quantile: m.quantile(0.3) * x
gathering: (m * x).gather(1, torch.tensor([[0, 2], [1, 1]]))
scattering: torch.zeros(2, 4, dtype=torch.float64).scatter_add(1, torch.tensor([[0, 0, 3], [1, 2, 2]]), m * x)
indexing: (m * x)[[0, 1, 1], [2, 0, 0]] + x[torch.tensor([True, True, True])]
put: m.clone().index_put_((torch.tensor([0, 0]), torch.tensor([1, 1])), x[:2], accumulate=True)
padding: F.pad(m * x, (1, 2), value=3.0).roll(1, 1)
unfolding: (m * x).flatten().unfold(0, 3, 2).prod(1)
layer_norm: F.layer_norm(m * x, (3,), x, m[0])
cross_entropy: F.cross_entropy(m * x, torch.tensor([2, 0]), weight=x.detach(), label_smoothing=0.1).reshape(1)
huber: F.huber_loss(m * 2, x.expand(2, 3), delta=0.5, reduction="none")
convolution: F.conv1d((m * x)[None], torch.stack([x[:2], x[1:]])[None].expand(1, 2, 2))
attention: F.scaled_dot_product_attention((m * x)[None], m[None], (m + x)[None], is_causal=True)
gelu_chain: F.gelu(F.silu(m) * F.softplus(x)).mean(0)
var: (m * x).var(1, correction=0) + (m + x).std(0)[:2]
logsumexp: (m * x * 100).logsumexp(1) / 100
powers: x ** m[0] + 2 ** x + x ** 2 ** 0.5
remainder: (x * 5) % m[0] + torch.fmod(x * 5, 1.3)
clamp_tensor: torch.clamp(m * x, x, x + 1)
lerp: torch.lerp(m[0], m[1], x)
special: torch.special.xlog1py(x, m[0]) + torch.special.entr(x) + torch.erf(x) + torch.lgamma(x)
nan_to_num: torch.nan_to_num(torch.stack([x / 0, x * 2]), posinf=3.0)
flip_cat: torch.cat([m.flip(1), x[None]]).tril().diagonal()
meshgrid: (torch.meshgrid(x, m[0], indexing="xy")[0] * torch.meshgrid(x, m[0], indexing="ij")[1]).sum(0)
repeat: x.repeat_interleave(torch.tensor([1, 0, 2])) * m[0].tile(2)[:3]
split: torch.stack([part.prod() for part in (m * x).flatten().split([1, 2, 3])])
""")


@program
def hooks_change_gradients_in_order(torch):
    x, seen = numbers(torch, 3), []
    h = x * 2
    h.register_hook(lambda g: g * 3)
    handle = h.register_hook(lambda g: seen.append(g.tolist()) or g + 1)
    h.retain_grad()
    x.register_hook(lambda g: g.neg())
    (h * h).sum().backward()
    handle.remove()
    (h.detach() * x).sum().backward()
    return seen, h.grad, x.grad


@program
def a_function_differentiated_twice(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            ctx.mark_non_differentiable(count := torch.tensor(x.numel()))
            return x**3 * scale, count

        @staticmethod
        def backward(ctx, g, _):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2 * ctx.scale, None

    x = numbers(torch, 3)
    y, count = Cube.apply(x, 2.0)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    second.sum().backward()
    return y, count, first, second, x.grad


@program
def views_of_views_after_writes(torch):
    x = numbers(torch, 2, 3)
    base = x.clone()
    rows, column = base[0], base[:, 1]
    rows.mul_(2)
    column.add_(rows[0])
    base[1].copy_(x[0] * 3)
    (base * base).sum().backward()
    return base, rows, column, x.grad, base._version


@program
def a_write_to_what_backward_needs(torch):
    x = numbers(torch, 3)
    y = x.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:  # PyTorch names the node without its ending
        return "modified by an inplace operation: [torch.DoubleTensor [3]]" in str(error)


@program
def functional_transforms(torch):
    def f(w, x):
        return (x @ w).tanh().sum()

    w, x = numbers(torch, 3, grad=False), numbers(torch, 4, 3, grad=False)
    func = torch.func
    each = func.vmap(func.grad(f), (None, 0))(w, x)
    hessian = func.hessian(f)(w, x)
    out, pull = func.vjp(lambda w: x @ w, w)
    tangent = func.jvp(lambda w: (x @ w).sin(), (w,), (torch.ones_like(w),))
    return each, hessian, out, pull(torch.ones_like(out)), tangent, func.jacrev(lambda w: (x @ w).exp())(w), func.jacfwd(lambda w: w**2)(w)


@program
def gradients_for_chosen_inputs(torch):
    x, y = numbers(torch, 3), numbers(torch, 3, add=1.0)
    h = x * y
    z = (h.sin() * x).sum()
    z.backward(inputs=[y, h], retain_graph=True)
    return x.grad, y.grad, h.grad, torch.autograd.grad(z, [x, h], retain_graph=True), torch.autograd.grad(z, x, materialize_grads=True)


@program
def no_grad_and_enable_grad_inside(torch):
    x = numbers(torch, 3)
    with torch.no_grad():
        frozen = x * 2
        with torch.enable_grad():
            live = x * 3
        x.add_(1)
    with torch.set_grad_enabled(False):
        other = x.sum()
    return frozen.requires_grad, live.requires_grad, other.requires_grad, x, x._version


@program
def checkpointed_and_hooked(torch):
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    x = numbers(torch, 3)
    y = checkpoint(lambda t: (t.sin() * t).exp(), x, use_reentrant=False)
    y.sum().backward()
    return y, x.grad
