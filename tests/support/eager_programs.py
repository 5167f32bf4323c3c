"""Programs about gradients, hooks, views and edges of arguments: PyTorch runs them and so does symgrad.

`eager_figures.json` has what PyTorch shows, so that CI can compare where there is no PyTorch: run this file with PyTorch to write it.
A program takes the module, `torch` or `symgrad`, and returns what it sees; a refusal is seen by its type and its words.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

FIGURES = Path(__file__).with_name("eager_figures.json")
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def shown(value):
    """Tensors with their history flag, shapes and strides as lists, so that both libraries and a JSON file can be compared."""
    if hasattr(value, "detach"):
        number = value.detach()
        if number.is_complex():
            return {"complex": shown(number.real), "imag": shown(number.imag), "grad": value.requires_grad}
        return {"values": number.tolist(), "grad": value.requires_grad}
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str, dict)) else repr(value)


def seen(function, torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shown(function(torch))
        except Exception as error:
            return {"error": type(error).__name__, "says": str(error)}


def alike(a, b):
    """Equal in structure, with numbers equal to 6 digits; NaN equals NaN, and 0.0 equals -0.0."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=2e-6, abs_tol=1e-7)
    return type(a) is type(b) and a == b


def figures():
    return json.loads(FIGURES.read_text())


# --- detach_(): what was saved, and views ---------------------------------------------------------------------------------


def leaf(torch):
    return torch.tensor([1.0, 2.0], requires_grad=True)


def refused(torch, call):
    """For refusals of which the words differ: whether there is one."""
    return "error" in (seen(lambda torch: call(), torch) or {})


@program
def detach_in_place_of_a_saved_tensor(torch):
    x = leaf(torch)
    a = x.clone()
    b = a.sin()
    a.detach_()
    b.sum().backward()


@program
def detach_in_place_of_a_tensor_that_a_function_saved(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(torch)
    a = x.clone()
    b = Double.apply(a)
    a.detach_()
    b.sum().backward()
    return x.grad


@program
def detach_in_place_where_nothing_was_saved(torch):
    x = leaf(torch)
    a = x.clone()
    b = a + 1
    a.detach_()
    b.sum().backward()
    return x.grad, a, b


@program
def detach_in_place_of_a_saved_result(torch):
    x = leaf(torch)
    a = x.exp()
    b = a * 2
    a.detach_()
    b.sum().backward()
    return x.grad


@program
def detach_in_place_when_views_were_saved(torch):
    x = leaf(torch)
    a = x.clone()
    b = a.view(2) * a.view(2)
    a.detach_()
    b.sum().backward()
    return x.grad


@program
def detach_in_place_leaves_views_their_history(torch):
    x = leaf(torch)
    a = x.clone()
    v = a[0:1]
    a.detach_()
    v.sin().sum().backward()
    return x.grad, a, v


@program
def a_write_to_a_view_of_a_detached_tensor(torch):
    a = leaf(torch).clone()
    v = a.view(2, 1)
    a.detach_()
    v.mul_(2)


@program
def a_written_history_reaches_views_of_a_detached_tensor(torch):
    x = leaf(torch)
    a, y = x.clone(), x * 3
    v = a[0:1]
    a.detach_()
    a.mul_(y)
    v.sum().backward()
    return x.grad, a, v


@program
def detach_in_place_of_a_view(torch):
    leaf(torch).clone()[0:1].detach_()


@program
def detach_in_place_of_one_of_several_views(torch):
    leaf(torch).clone().split(1)[0].detach_()


@program
def detach_in_place_of_a_detached_tensor(torch):
    return leaf(torch).detach().detach_()


@program
def a_write_and_then_detach_in_place(torch):
    x = leaf(torch)
    a = x.clone()
    b = a.sin()
    a.add_(1)
    a.detach_()
    return refused(torch, b.sum().backward)


@program
def detach_in_place_and_then_a_write(torch):
    a = leaf(torch).clone()
    b = a.view(2).sin()
    a.detach_()
    a.add_(1)
    return refused(torch, b.sum().backward)


@program
def frozen_between_forward_and_backward(torch):
    x, y = leaf(torch), leaf(torch)
    z = (x * y).sum()
    x.requires_grad_(False)
    z.backward()
    return x.grad, y.grad


@program
def detached_leaf_between_forward_and_backward(torch):
    x, y = leaf(torch), leaf(torch)
    z = (x * y).sum()
    x.detach_()
    z.backward()
    return x.grad, y.grad


# --- saved_tensors_hooks ---------------------------------------------------------------------------------------------------


def hooked(torch, pack, unpack=lambda x: x):
    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


@program
def the_inner_of_nested_hooks_packs(torch):
    b = torch.tensor([3.0], requires_grad=True)
    with hooked(torch, lambda x: x * 7), hooked(torch, lambda x: x * 5):
        y = b**2
    y.sum().backward()
    return b.grad


@program
def the_outer_of_nested_hooks_packs_after_the_inner(torch):
    b = torch.tensor([3.0], requires_grad=True)
    with hooked(torch, lambda x: x * 7):
        with hooked(torch, lambda x: x * 5):
            y = b**2
        y = y + b**3
    y.sum().backward()
    return b.grad


@program
def the_inner_of_nested_hooks_unpacks(torch):
    b = torch.tensor([3.0], requires_grad=True)
    with hooked(torch, lambda x: x, lambda x: x * 7), hooked(torch, lambda x: (x, 2), lambda x: x[0] * x[1]):
        y = b.exp() * b
    y.sum().backward()
    return b.grad


@program
def hooks_pack_what_a_function_saves(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * 2)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, twice = ctx.saved_tensors
            return g * x * twice

    b, packed = torch.tensor([3.0], requires_grad=True), []
    with hooked(torch, lambda x: packed.append(x.tolist()) or x + 1):
        y = Square.apply(b)
    y.sum().backward()
    return b.grad, packed


# --- Functions -------------------------------------------------------------------------------------------------------------


def adding(torch):
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    return Add.apply


@program
def a_function_in_place_on_a_leaf(torch):
    adding(torch)(leaf(torch))


@program
def a_function_in_place_on_a_view_of_a_leaf(torch):
    adding(torch)(leaf(torch)[0:1])


@program
def a_function_in_place_on_one_of_several_views(torch):
    adding(torch)(leaf(torch).clone().split(1)[0])


@program
def a_function_in_place_on_a_view(torch):
    x = leaf(torch)
    a = x * 2
    v = adding(torch)(a[0:1])
    (a * a).sum().backward()
    return x.grad, a, v


def with_default(torch, style):
    class Power(torch.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.count = len(inputs)

        @staticmethod
        def backward(ctx, g):
            return (g * ctx.count, *(None,) * (ctx.count - 1))

        @staticmethod
        def forward(x, k=3.0):
            return x * k

    return Power.apply


@program
def setup_context_with_a_default_argument(torch):
    x = leaf(torch)
    y = with_default(torch, "default")(x)
    y.sum().backward()
    return x.grad, y


@program
def a_function_called_by_keyword(torch):
    x = leaf(torch)
    y = with_default(torch, "keyword")(x, k=2.0)
    y.sum().backward()
    return x.grad, y


@program
def a_function_called_with_too_few(torch):
    with_default(torch, "few")()


# --- numpy(), complex views, strides ----------------------------------------------------------------------------------------


@program
def numpy_without_recording(torch):
    x = leaf(torch)
    with torch.no_grad():
        return x.numpy().tolist(), x.sin().numpy().sum() > 1


@program
def numpy_in_inference_mode(torch):
    x = leaf(torch)
    with torch.inference_mode():
        return x.numpy().tolist()


@program
def numpy_while_recording(torch):
    leaf(torch).numpy()


@program
def real_views_of_complex_products(torch):
    z = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    c = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    out = torch.view_as_real(torch.view_as_complex(z) * c)
    (out * torch.tensor([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
    return z.grad, c.grad, out


@program
def attention_heads_joined(torch):
    x = torch.arange(120.0, dtype=torch.float64).reshape(2, 4, 3, 5).div(50).requires_grad_()
    q = x.transpose(1, 2)
    out = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    joined = out.transpose(1, 2).view(2, 4, 15)
    (joined * joined).sum().backward()
    return out.stride(), out.is_contiguous(), joined, x.grad


@program
def attention_heads_viewed(torch):
    q, mask = torch.ones(2, 4, 3, 5, requires_grad=True).transpose(1, 2), torch.ones(4, 4).tril()
    attention = torch.nn.functional.scaled_dot_product_attention
    outs = [attention(q, q, q), attention(q, q, q, is_causal=True), attention(q, q, q, mask), attention(q, q, q, scale=0.5)]
    outs.append(attention(q.detach(), q.detach(), q.detach()))
    return [(out.stride(), out.transpose(1, 2).view(2, 4, 15).stride()) for out in outs]


# --- edges of arguments -----------------------------------------------------------------------------------------------------


@program
def transposed_convolution_with_output_padding_of_a_stride(torch):
    x = torch.arange(12.0).reshape(1, 2, 2, 3).requires_grad_()
    w = torch.arange(8.0).div(7).reshape(2, 1, 2, 2).requires_grad_()
    b = torch.ones(1, requires_grad=True)
    y = torch.nn.functional.conv_transpose2d(x, w, b, stride=1, padding=(0, 1), output_padding=1, dilation=2)
    (y * torch.arange(float(y.numel())).reshape(y.shape)).sum().backward()
    return y, x.grad, w.grad, b.grad


@program
def a_transposed_convolution_that_is_too_small(torch):
    torch.nn.functional.conv_transpose2d(torch.ones(1, 2, 3, 4), torch.ones(2, 1, 2, 2), padding=2)


@program
def differences_of_order_0(torch):
    x = leaf(torch)
    y = torch.diff(x, n=0, prepend=torch.tensor([5.0]))
    return y, y.data_ptr() == x.data_ptr(), torch.diff(x, n=3), torch.diff(torch.tensor([True, False]), n=0)


@program
def differences_with_a_matrix_before_a_vector(torch):
    torch.diff(torch.ones(2), prepend=torch.ones(1, 2))


@program
def gather_nothing(torch):
    x, index = torch.ones(2, 3, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    y = torch.gather(x, 1, index)
    y.sum().backward()
    return list(y.shape), list(torch.gather(x, 0, index.reshape(0, 5, 7)).shape), x.grad


@program
def gather_nothing_of_a_dimension_that_is_not_there(torch):
    torch.gather(torch.ones(2, 3), 5, torch.zeros(0, dtype=torch.int64))


@program
def scatter_nothing(torch):
    index = torch.zeros(0, 5, dtype=torch.int64)
    return torch.ones(2).scatter(0, index[:, 0], torch.zeros(0)), torch.ones(2, 3).scatter_add(0, index, torch.zeros(0))


@program
def take_along_a_dimension_counts_modulo_its_size(torch):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = torch.take_along_dim(x, torch.tensor([[5, -1, -4, 3]]), dim=1)
    y.sum().backward()
    return y, x.grad


@program
def take_along_the_flat_tensor(torch):
    return torch.take_along_dim(torch.arange(6.0).reshape(2, 3), torch.tensor([[5], [0]]))


@program
def take_along_the_flat_tensor_from_the_end(torch):
    torch.take_along_dim(torch.arange(6.0).reshape(2, 3), torch.tensor([-1]))


@program
def take_along_with_small_integers(torch):
    torch.take_along_dim(torch.ones(2, 3), torch.zeros(1, 1, dtype=torch.int32), dim=1)


# --- autograd.functional: create_graph and strict ---------------------------------------------------------------------------

POWERS = {
    "square": lambda x: (x**2).sum(),
    "cube": lambda x: (x**3).sum(),
    "product": lambda x: (x * x).sum(),
    "sum of squares": lambda x: x.square().sum(),
    "linear": lambda x: (x * 2).sum(),
    "sine": lambda x: x.sin().sum(),
    "relu": lambda x: (x.relu() ** 2).sum(),
}


def derivatives(torch, name, function, **options):
    x, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])
    vector = {"jacobian": (), "hessian": (), "vjp": (torch.tensor(1.0),)}.get(name, (v,))
    return getattr(torch.autograd.functional, name)(function, x, *vector, **options)


def every_derivative(name):
    def run(torch):
        found = []
        for function in POWERS.values():
            for options in ({}, {"strict": True}, {"create_graph": True}, {"create_graph": True, "strict": True}):
                found.append(seen(lambda torch, f=function, o=options: derivatives(torch, name, f, **o), torch))
        return found

    run.__name__ = f"{name}_with_create_graph_and_strict"
    return program(run)


for _name in ("hvp", "vhp", "vjp", "jvp", "jacobian", "hessian"):
    every_derivative(_name)


if __name__ == "__main__":
    import torch
    from eager_programs_more import PROGRAMS as MORE  # the table of both files

    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(seen(run, torch))}" for name, run in sorted({**PROGRAMS, **MORE}.items()))
    FIGURES.write_text(f"{{\n{lines}\n}}\n")
