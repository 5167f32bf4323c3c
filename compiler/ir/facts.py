"""Derives facts about a value from how it was made: `facts(X.T @ X + eye)` has "symmetric" and "positive_definite"; and from what the user
says of it: `assume(A, "symmetric")`.

Facts about matrices are about the last two dimensions, for every matrix of a batch; "positive" and "integer" are about all elements.
Each row that makes or keeps facts has one transfer function in `TRANSFER`, which returns the facts of a value from those of its
arguments; all other rows have none. Facts are mathematical: rounding may violate them in the last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from symgrad.compiler.ir.graph import Value, number, toposort
from symgrad.ops.promotion import kind

Facts = frozenset[str]

NAMES = frozenset(
    (
        "zeros", "ones", "identity", "diagonal", "lower_triangular", "upper_triangular", "triangular", "symmetric", "positive_semidefinite",
        "positive_definite", "orthogonal", "nonnegative", "positive", "integer",
    )
)  # fmt: skip
"""The names of all facts; "symmetric" means A = A', also for complex matrices, and "triangular" that it is lower or upper."""

_IMPLIED: dict[str, tuple[str, ...]] = {
    "identity": ("diagonal", "orthogonal", "positive_definite", "integer", "nonnegative"),
    "zeros": ("integer", "nonnegative"),
    "ones": ("integer", "positive"),
    "diagonal": ("symmetric", "lower_triangular", "upper_triangular"),
    "lower_triangular": ("triangular",),
    "upper_triangular": ("triangular",),
    "positive_definite": ("positive_semidefinite",),
    "positive": ("nonnegative",),
}
_MATRIX = frozenset(
    (
        "identity", "diagonal", "lower_triangular", "upper_triangular", "triangular", "symmetric", "positive_semidefinite",
        "positive_definite", "orthogonal",
    )
)  # fmt: skip
_SIGNS = frozenset(("nonnegative", "positive", "positive_semidefinite", "positive_definite"))
"""Facts that integers do not have, since they wrap around."""
_NONE: Facts = frozenset()

Known = Callable[[Value], Facts]
Transfer = Callable[[Value, Known], Iterable[str]]
"""Returns the facts of a value; the second argument returns those of its arguments."""

TRANSFER: dict[str, Transfer] = {}
"""The transfer functions, by row."""


def transfer(*ops: str) -> Callable[[Transfer], Transfer]:
    """Register the transfer function of rows."""

    def register(function: Transfer) -> Transfer:
        TRANSFER.update(dict.fromkeys(ops, function))
        return function

    return register


class _Asked:
    """The values whose facts are known already: there is no need to look below them."""

    def __contains__(self, v: Any) -> bool:
        return v.known is not None


_ASKED = _Asked()


def facts(value: Value) -> Facts:
    """Return what is known of a value, including everything that follows from it. Remembered in the value."""
    if value.known is None:
        for v in toposort((value,), _ASKED):
            if v.known is None:
                rule = TRANSFER.get(v.op)
                names = () if rule is None or isinstance(v.dtype, tuple) else rule(v, _of)
                object.__setattr__(v, "known", _NONE if isinstance(v.dtype, tuple) else implied(names, v))
    return cast(Facts, value.known)


def _of(v: Value) -> Facts:
    return cast(Facts, v.known)


def implied(names: Iterable[str], v: Value) -> Facts:
    """Return the names with all that follow for a value of this type; facts about matrices hold for square ones only."""
    is_square = v.ndim >= 2 and v.shape[-1] == v.shape[-2]
    found: set[str] = set()
    stack = list(names)
    refused = _NONE if is_square else _MATRIX
    if kind(v.dtype) in "bi":
        stack.append("integer")
        refused |= _SIGNS
    while stack:
        name = stack.pop()
        if name in found or name in refused:
            continue
        found.add(name)
        stack += _IMPLIED.get(name, ())
        stack += ["symmetric"] if name == "positive_semidefinite" and kind(v.dtype) != "c" else []
        stack += ["diagonal", "positive_semidefinite"] if name == "zeros" else []
        stack += ["diagonal"] if {"lower_triangular", "upper_triangular"} <= found else []
        stack += ["diagonal"] if {"symmetric", "triangular"} <= found else []
    return frozenset(found)


# --- arrays made of nothing, and of one number

_ELEMENTWISE = frozenset(("zeros", "ones", "nonnegative", "positive", "integer"))
_SHAPES = frozenset(("symmetric", "diagonal", "lower_triangular", "upper_triangular"))
"""Facts about where elements are equal or zero: sums keep them."""
_TRANSPOSED = {"lower_triangular": "upper_triangular", "upper_triangular": "lower_triangular"}


@transfer("eye")
def _eye(v: Value, of: Known) -> Iterable[str]:
    return ("identity",)


@transfer("literal")
def _literal(v: Value, of: Known) -> Iterable[str]:
    return _of_number(v.value)


def _of_number(x: Any) -> Iterable[str]:
    if isinstance(x, complex):
        return
    if x in (0, 1):
        yield "ones" if x else "zeros"
    elif x > 0:
        yield "positive"
    if float(x).is_integer():
        yield "integer"


@transfer("expand")
def _expand(v: Value, of: Known) -> Iterable[str]:
    return _broadcast(v.args[0], v, of)


def _broadcast(a: Value, v: Value, of: Known) -> Facts:
    """Return the facts of an argument when it is broadcast to the shape of `v`."""
    found = of(a)
    if a.shape[-2:] == v.shape[-2:]:
        return found
    kept = found & _ELEMENTWISE
    return kept | {"symmetric"} if _is_filled(a) else kept


def _is_filled(a: Value) -> bool:
    """True if every matrix of a broadcast argument is filled with one number."""
    return all(n == 1 for n in a.shape[-2:])


# --- rows that move elements


@transfer("reshape", "squeeze", "unsqueeze", "getitem", "diagonal", "flip", "tile", "take_along", "index_select")
def _moved(v: Value, of: Known) -> Iterable[str]:
    kept = of(v.args[0]) & _ELEMENTWISE
    return [*kept, "symmetric"] if number(v) is not None else kept


@transfer("assume")
def _assumed(v: Value, of: Known) -> Iterable[str]:
    """What the user knows: the words of `symgrad.ops.assumptions` are names of facts."""
    yield from of(v.args[0])
    yield from (word for word in v.attrs["words"] if word not in _SIGNS or kind(v.dtype) != "c")


@transfer("clone", "detach", "cast")
def _copied(v: Value, of: Known) -> Iterable[str]:
    return () if kind(v.dtype) not in "fc" else of(v.args[0])


@transfer("transpose", "permute", "t")
def _transposed(v: Value, of: Known) -> Iterable[str]:
    return {_TRANSPOSED.get(name, name) for name in of(v.args[0])} if transposes(v) else of(v.args[0]) & _ELEMENTWISE


def transposes(v: Value) -> bool:
    """True if a value is another one with the last two dimensions exchanged."""
    n = v.ndim
    if v.op == "transpose":
        return {v.attrs["dim0"] % n, v.attrs["dim1"] % n} == {n - 2, n - 1}
    return v.op == "t" or (v.op == "permute" and n >= 2 and tuple(v.attrs["axes"]) == (*range(n - 2), n - 1, n - 2))


def is_transpose(x: Value, y: Value) -> bool:
    """True if one of two values is the transpose of the other."""
    return (transposes(x) and x.args[0] is y) or (transposes(y) and y.args[0] is x)


@transfer("diag_embed")
def _diag_embed(v: Value, of: Known) -> Iterable[str]:
    if {v.attrs["axis1"], v.attrs["axis2"]} != {v.ndim - 2, v.ndim - 1}:
        return ()
    offset, found = v.attrs["offset"], of(v.args[0])
    if offset:
        return ("upper_triangular" if (offset > 0) == (v.attrs["axis1"] < v.attrs["axis2"]) else "lower_triangular",)
    definite = ["positive_definite"] if "positive" in found else ["positive_semidefinite"] if "nonnegative" in found else []
    return ["diagonal", *definite, *(["identity"] if "ones" in found else []), *(found & {"nonnegative", "integer", "zeros"})]


@transfer("tril", "triu")
def _triangle(v: Value, of: Known) -> Iterable[str]:
    lower, offset, found = v.op == "tril", v.attrs["diagonal"], of(v.args[0])
    kept = found & {"lower_triangular", "upper_triangular", "nonnegative", "integer", "zeros"}
    inside = offset <= 0 if lower else offset >= 0
    return [*kept, "lower_triangular" if lower else "upper_triangular"] if inside else kept


# --- sums and products


@transfer("add")
def _add(v: Value, of: Known) -> Iterable[str]:
    x, y = (_broadcast(a, v, of) for a in v.args)
    both = x & y
    yield from both & (_SHAPES | {"nonnegative", "positive", "integer", "positive_semidefinite", "positive_definite"})
    for name, weaker in (("positive", "nonnegative"), ("positive_definite", "positive_semidefinite")):
        if (name in x and weaker in y) or (weaker in x and name in y):
            yield name
    if is_transpose(*v.args):
        yield "symmetric"


@transfer("sub")
def _sub(v: Value, of: Known) -> Iterable[str]:
    x, y = (_broadcast(a, v, of) for a in v.args)
    return x & y & (_SHAPES | {"integer"})


@transfer("neg")
def _neg(v: Value, of: Known) -> Iterable[str]:
    return of(v.args[0]) & (_SHAPES | {"zeros", "integer", "orthogonal"})


@transfer("mul")
def _mul(v: Value, of: Known) -> Iterable[str]:
    x, y = (_broadcast(a, v, of) for a in v.args)
    yield from x & y & {"symmetric", "ones", "nonnegative", "positive", "integer"}
    yield from (x | y) & {"diagonal", "lower_triangular", "upper_triangular", "zeros"}
    for a, scale, matrix in ((v.args[0], x, y), (v.args[1], y, x)):
        if _is_filled(a):
            yield from _scaled(scale, matrix)


@transfer("div")
def _div(v: Value, of: Known) -> Iterable[str]:
    x, y = (_broadcast(a, v, of) for a in v.args)
    yield from x & y & {"positive"}
    if "positive" in y:
        yield from x & {"nonnegative"}
    if _is_filled(v.args[1]):
        yield from x & _SHAPES
        yield from _scaled(y, x)


def _scaled(scale: Facts, matrix: Facts) -> Facts:
    """Return what stays definite when a matrix is multiplied by a number with these facts."""
    if "positive" in scale:
        return matrix & {"positive_definite", "positive_semidefinite"}
    return matrix & {"positive_semidefinite"} if "nonnegative" in scale else _NONE


@transfer("matmul")
def _matmul(v: Value, of: Known) -> Iterable[str]:
    a, b = v.args
    x, y = of(a), of(b)
    yield from x & y & {"diagonal", "lower_triangular", "upper_triangular", "orthogonal", "nonnegative", "integer"}
    if "zeros" in x or "zeros" in y:
        yield "zeros"
    if is_transpose(a, b):
        yield "symmetric"
        if kind(v.dtype) == "f":
            yield "positive_definite" if "orthogonal" in x else "positive_semidefinite"


@transfer("sum", "mean", "trace", "cumsum")
def _sum(v: Value, of: Known) -> Iterable[str]:
    found = of(v.args[0])
    if v.args[0].size and v.op != "trace":
        yield from found & {"positive"}
    yield from found & {"nonnegative", "zeros", *(["integer"] if v.op != "mean" else [])}


# --- functions of elements and of matrices


@transfer("exp", "sigmoid", "softplus", "cosh", "softmax", "exp2")
def _positive(v: Value, of: Known) -> Iterable[str]:
    return ("positive",) if kind(v.dtype) == "f" else ()


@transfer("abs", "relu", "square")
def _nonnegative(v: Value, of: Known) -> Iterable[str]:
    found = of(v.args[0])
    if kind(v.args[0].dtype) != "c":
        yield "nonnegative"
        yield from found & {"positive", "integer", "zeros", "ones"}


@transfer("sqrt")
def _sqrt(v: Value, of: Known) -> Iterable[str]:
    return of(v.args[0]) & {"zeros", "ones", "nonnegative", "positive"}


@transfer("inv")
def _inv(v: Value, of: Known) -> Iterable[str]:
    return of(v.args[0]) & (_MATRIX - {"positive_semidefinite"})


@transfer("cholesky")
def _cholesky(v: Value, of: Known) -> Iterable[str]:
    return ("lower_triangular",)


@transfer("output")
def _output(v: Value, of: Known) -> Iterable[str]:
    whole, index = v.args[0], v.attrs["index"]
    if (whole.op, index) in (("qr", 0), ("eigh", 1), ("svd", 0), ("svd", 2)) and kind(v.dtype) == "f":
        yield "orthogonal"
    if (whole.op, index) == ("qr", 1):
        yield "upper_triangular"
    if (whole.op, index) == ("svd", 1):
        yield "nonnegative"
