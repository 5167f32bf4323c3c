"""Products of tensors, summed over shared indices."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.elements.registry import element


@element("matmul")
def _(ix: Any, at: Any, x: Any, y: Any) -> Any:
    batch = at[: len(at) - (x.ndim > 1) - (y.ndim > 1)]
    rest = at[len(batch) :]
    left, right = rest[:1] if x.ndim > 1 else (), rest[-1:] if y.ndim > 1 else ()
    lead = lambda t: batch[len(batch) - max(t.ndim - 2, 0) :]
    return ix.sum(lambda k: x(*lead(x), *left, k) * y(*lead(y), k, *right), x.shape[-1])


@element("einsum")
def _(ix: Any, at: Any, *operands: Any, equation: str) -> Any:
    inputs, _, output = equation.partition("->")
    sizes: dict[str, int] = {}
    for letters, operand in zip(inputs.split(","), operands, strict=True):
        for letter, n in zip(letters, operand.shape, strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    summed = [letter for letter in sizes if letter not in output]

    def product(*bound: Any) -> Any:
        place = dict(zip(output, at, strict=True)) | dict(zip(summed, bound, strict=True))
        result = 1
        for letters, operand in zip(inputs.split(","), operands, strict=True):
            result *= operand(*(place[letter] for letter in letters))
        return result

    return ix.sum(product, *(sizes[letter] for letter in summed))


@element("eye")
def _(ix: Any, at: Any, *, rows: int, columns: int, dtype: Any) -> Any:
    return ix.delta(*at)


@element("trace")
def _(ix: Any, at: Any, x: Any) -> Any:
    return ix.sum(lambda k: x(k, k), min(x.shape))


@element("cross")
def _(ix: Any, at: Any, x: Any, y: Any, *, axis: int) -> Any:
    """x[k+1] y[k+2] - x[k+2] y[k+1], with indices modulo 3."""
    after, last = (ix.divided(at[axis] + step, 3)[1] for step in (1, 2))
    place = lambda t, k: (*at[:axis], k, *at[axis + 1 :])[len(at) - t.ndim :]
    return x(*place(x, after)) * y(*place(y, last)) - x(*place(x, last)) * y(*place(y, after))


@element("euclidean_distance")
def _(ix: Any, at: Any, x: Any, y: Any, *, products: bool) -> Any:
    *batch, i, j = at
    lead = lambda t: batch[len(batch) - (t.ndim - 2) :]
    return ix.sqrt(ix.sum(lambda k: (x(*lead(x), i, k) - y(*lead(y), j, k)) ** 2, x.shape[-1]))


def _taps(at: Any, k: Any, stride: Any, padding: Any, dilation: Any) -> list[Any]:
    """Return the input position of kernel element k in the window `at`."""
    return [i * s + j * d - p for i, j, s, p, d in zip(at, k, stride, padding, dilation, strict=True)]


@element("convolution")
def _(ix: Any, at: Any, x: Any, w: Any, bias: Any, *, groups: int, **geometry: Any) -> Any:
    n, o, *window = at
    first = ix.divided(o, w.shape[0] // groups)[0] * w.shape[1]

    def product(c: Any, *k: Any) -> Any:
        place = _taps(window, k, **geometry)
        return ix.inside(place, x.shape[2:]) * x(n, first + c, *place) * w(o, c, *k)

    total = ix.sum(product, *w.shape[1:])
    return total if bias is None else total + bias(o)


@element("convolution_transpose")
def _(ix: Any, at: Any, g: Any, w: Any, bias: Any, *, output_shape: Any, groups: int, **geometry: Any) -> Any:
    n, channel, *place = at
    group, c = ix.divided(channel, w.shape[1])
    size, rank = w.shape[0] // groups, len(place)

    def product(o: Any, *both: Any) -> Any:
        k, window = both[:rank], both[rank:]
        hits = [ix.delta(i, tap) for i, tap in zip(place, _taps(window, k, **geometry), strict=True)]
        return ix.all(hits) * g(n, group * size + o, *window) * w(group * size + o, c, *k)

    total = ix.sum(product, size, *w.shape[2:], *g.shape[2:])
    return total if bias is None else total + bias(channel)


@element("convolution_weight")
def _(ix: Any, at: Any, x: Any, g: Any, *, kernel_shape: Any, groups: int, **geometry: Any) -> Any:
    o, c, *k = at
    first = ix.divided(o, g.shape[1] // groups)[0] * (x.shape[1] // groups)

    def product(n: Any, *window: Any) -> Any:
        place = _taps(window, k, **geometry)
        return ix.inside(place, x.shape[2:]) * x(n, first + c, *place) * g(n, o, *window)

    return ix.sum(product, x.shape[0], *g.shape[2:])
