"""Apply a row to any mixture of operands: promote their types, run the kernel, and record the result if a derivative may be asked for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from symgrad.dtypes import ALL, type_word
from symgrad.errors import SymgradError, TraceError, UnknownSize, describe
from symgrad.escapes import before_escape, option, sized
from symgrad.graph import Constant, Node, Output, next_sequence
from symgrad.mode import local
from symgrad.ops.exact import Exact, exact, is_exact
from symgrad.ops.foreign import builtin_number, elementwise_array, hint, native, python_number
from symgrad.ops.promotion import BOOL, FLOAT32, FLOAT64, compute_type, kind, real_number, require_one_type
from symgrad.ops.reduction import Everything
from symgrad.ops.spec import Row
from symgrad.ops.symbolic_scalar import is_symbolic_scalar
from symgrad.ops.variants import is_half, rounds_number, variant
from symgrad.tensor import Tensor, refresh, version_cell, wrap

ndarray, asarray = np.ndarray, np.asarray
new: Any = Tensor.__new__
new_node: Any = Node.__new__
PLAIN = frozenset((int, float, bool, str, tuple, type(None), Everything, Exact, *(type(d._dtype) for d in ALL if d._dtype is not None)))
"""The classes that attribute values may have without conversion."""
REFUSALS = (ValueError, IndexError, TypeError, RuntimeError)
"""The errors that kernels raise for operands and options that they do not accept."""


def constant(array: Any, number: Any) -> Tensor:
    """Return a tensor filled with one number, and tell an active capture."""
    t = wrap(array)
    if local.mode.capture is not None:
        local.mode.capture.on_fill(t, number)
    return t


def edge_of(x: Tensor) -> Any:
    """Return the edge to `x` for a node that consumes it: its node, a leaf tensor, or a Constant."""
    if x._node is not None:
        return x._node
    if x._requires_grad:
        return x
    array = x._array
    if not array.ndim and x.name is None:  # not cached: the number may change
        return Constant((), array.dtype, None, array.item())
    constant = x._constant
    if constant is None:
        constant = x._constant = Constant(x._array.shape, x._array.dtype, x.name)
    return constant


def view_of(row: Row, x: Tensor, attrs: dict[str, Any], out: Any) -> Tensor:
    """Return a tensor around `out`, the result of a view row on x's array; for rows that `may_copy`, `out` may be a copy instead of a
    view."""
    if x._base is not None:
        refresh(x)
    mode = local.mode
    t: Tensor = new(Tensor)
    t._array = out
    t._version_cell = []
    if x._requires_grad and mode.recording:
        t._requires_grad = True
        t._node = node = new_node(Node)
        node.row = row
        node.inputs = node.saved = (x._node or x,)
        node.attrs = attrs
        node.sequence = next_sequence()
        node.shape = out.shape
        node.dtype = out.dtype
        node.hooks = node.out = node.cells = None
    else:
        t._requires_grad = False
        t._node = None
    base = out.base
    if row.may_copy and base is not x._array and (base is None or base is not x._array.base):
        t._base = None
        return t
    share(t, x, (row.name, attrs))
    return t


def share(view: Tensor, x: Tensor, step: tuple[str, Any] | None) -> None:
    """Make `view` an alias of `x`: set its base, and the path of view steps from the owner of the history. `step` is None if there is no
    step to replay."""
    view._base = x if x._base is None else x._base
    owner = x._owner
    depth = len(x._undo) if owner is None else x._depth
    view._owner = owner = x if owner is None else owner
    view._path = (*x._path, step)
    view._epoch = owner._epoch
    if depth:
        view._depth = depth
    if not local.mode.recording:
        view._made = x._made or "no_grad"
    elif step is None:
        view._made = x._made or "several"
    elif x._made is not None:
        view._made = x._made


@functools.cache
def keeps(row: Row, needs: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return which arguments and which results must be saved if these arguments need a gradient."""
    reads: set[str] = set()
    for i, need in enumerate(needs):
        if need and row.rule(i) is not None:
            reads |= row.reads(i)
    keep = [name in reads for name in row.names(len(needs))]
    if "others" in reads:
        keep = [True in needs[:i] or True in needs[i + 1 :] for i in range(len(needs))]
    return (*keep, *("out" in reads or f"out{i}" in reads for i in range(row.outputs)))


def apply(row: Row, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run a row on any mixture of tensors, arrays, Python scalars and None."""
    mode = local.mode
    if attrs and (mode.capture is not None or has_foreign_numbers(attrs)):
        attrs = numbers(row, args, attrs)
    arrays, needs, args = _operands(row, args, attrs)
    try:
        if row.policy == "same":
            require_one_type(arrays)
        for a in arrays:
            if a.__class__ is ndarray and a.dtype is not FLOAT32 and a.dtype is not FLOAT64:
                out = _run_checked(mode, row, arrays, attrs)
                break
        else:
            out = mode.run(row.numpy, *arrays, **attrs) if mode.capture is None else _run_checked(mode, row, arrays, attrs)
    except REFUSALS as error:
        return without_tensors(row, args, attrs, error)
    if row.view and row.outputs == 1:
        result = view_of(row, args[0], attrs, out)
    elif mode.recording and True in needs and row.differentiable:
        result = _record(row, args, attrs, arrays, out, needs)
    else:
        result = _plain(row, args, out)
    if mode.capture is not None:
        mode.capture.on_op(row, args, attrs, result)
    return result


def has_foreign_numbers(attrs: dict[str, Any]) -> bool:
    """True if an attribute is not a plain Python value. A NumPy scalar would determine the dtype of the result, whereas a Python scalar
    leaves it to the tensor; kernels take no other types."""
    for value in attrs.values():  # noqa: SIM110  (a generator costs more than the tests)
        if value.__class__ not in PLAIN:
            return True
    return False


def numbers(row: Row, args: tuple[Any, ...], attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes as they are recorded: with Python scalars in place of others; beside real tensors they are real."""
    plain = {name: _number(row, name, value) for name, value in attrs.items()}
    if any([isinstance(value, complex) for value in plain.values()]) and not any([_is_complex(x) for x in args]):
        word = next((x._array.dtype.name for x in args if isinstance(x, Tensor)), "float")
        return {name: real_number(value, word) if isinstance(value, complex) else value for name, value in plain.items()}
    return plain


def _is_complex(x: Any) -> bool:
    return kind(x._array.dtype) == "c" if isinstance(x, Tensor) else isinstance(x, complex)


def option_number(t: Tensor) -> Any:
    """Return the number in a tensor that is passed as an option."""
    refuse_gradient(t)
    return t._array.item()


def refuse_gradient(x: Any) -> None:
    """Raise for a tensor that requires grad where only its number is used, as PyTorch does: no derivative would flow back to it."""
    if isinstance(x, Tensor) and local.mode.recording and x.requires_grad:
        raise TypeError(
            "an option must be a number, not a tensor that requires grad: no derivative is taken in it; pass t.detach(), or compute with"
            " tensor operations"
        )


def _number(row: Row, name: str, value: Any) -> Any:
    """Return an option as a plain value. As in PyTorch, a tensor of one element is accepted. An integer may determine a shape, so a traced
    function adds a guard on it."""
    if value.__class__ in (int, float, bool, str, Exact):
        return value
    if isinstance(value, Tensor) and value._array.size == 1:
        if value._array.dtype.kind not in "biu":
            before_escape(value, option(name, row.name))
            return option_number(value)
        return bool(value) if value._array.dtype.kind == "b" else int(value)
    if value.__class__ is tuple:
        return tuple([_number(row, name, x) for x in value])
    return python_number(value)


def _has_tensor(value: Any) -> bool:
    return any(map(_has_tensor, value)) if isinstance(value, tuple) else isinstance(value, Tensor)


def without_tensors(row: Row, args: tuple[Any, ...], attrs: dict[str, Any], error: Exception) -> Any:
    """Retry a failed kernel with numbers in place of tensor options, or raise its error. Only a failure checks for tensors, for speed."""
    if any(map(_has_tensor, attrs.values())):
        plain = numbers(row, args, attrs)
        if not any(map(_has_tensor, plain.values())):
            return apply(row, args, plain)
    raise failure(row, args, attrs, error) from error


def _operands(
    row: Row, args: tuple[Any, ...], attrs: dict[str, Any]
) -> tuple[list[Any], tuple[bool, ...], tuple[Any, ...]]:
    """Return the arrays for the kernel in the dtype that it computes in, which of them need gradients, and the arguments as recorded."""
    dtype: Any = None
    arrays, needs, agree = [], [], True
    for x in args:
        if isinstance(x, Tensor):
            if x._base is not None:
                refresh(x)
            a = x._array
            if dtype is None:
                dtype = a.dtype
            elif a.dtype is not dtype:
                agree = False
            arrays.append(a)
            needs.append(x._requires_grad)
        else:
            agree = False
            arrays.append(x)
            needs.append(False)
    if not agree:
        args = tuple([x if isinstance(x, Tensor) else _operand(row, x, dtype is None) for x in args])
        arrays = [x._array if isinstance(x, Tensor) else float(x) if x.__class__ is Exact else x for x in args]  # type: ignore[misc]
        if local.mode.capture is not None:
            arrays = [a.number if is_symbolic_scalar(a) else a for a in arrays]  # type: ignore[attr-defined]
    if row.policy not in ("each", "same") and (not agree or (row.policy in ("float", "count") and dtype.kind != "f")):
        arrays = _promoted(row, arrays, attrs)
    return arrays, tuple(needs), args


def _promoted(row: Row, arrays: list[Any], attrs: dict[str, Any]) -> list[Any]:
    if "b" not in row.kinds and any([a.__class__ is bool or getattr(a, "dtype", None) == BOOL for a in arrays]):
        row.type(*arrays, **attrs)  # some rows refuse a boolean even where it could be promoted
    skip = 1 if row.policy == "where" else 0
    dtype = compute_type(row.policy, tuple([a for a in arrays if a is not None]))
    arrays = [a if i < skip else _cast(a, dtype) for i, a in enumerate(arrays)]
    if dtype is not None and is_half(dtype):
        arrays = [_rounded(a, dtype) if rounds_number(row, i) else a for i, a in enumerate(arrays)]
    if all([a.__class__ is not ndarray for a in arrays[skip:]]):
        arrays[skip:] = [a if a is None else asarray(a, dtype) for a in arrays[skip:]]
    return arrays


def _operand(row: Row, arg: Any, alone: bool) -> Any:
    """Return an argument that is not a tensor as it is recorded. A NumPy scalar beside a tensor is a weak scalar, as in PyTorch; otherwise
    it keeps its dtype."""
    if arg.__class__ in (float, int, bool, complex) or (arg is None and not row.elementwise):
        return arg
    if isinstance(arg, np.generic):
        return wrap(asarray(arg)) if alone else arg.item()
    if isinstance(arg, ndarray):
        type_word(elementwise_array(arg).dtype)  # refuses dtypes that tensors cannot have
        return wrap(arg)
    if isinstance(arg, (int, float, complex)):
        return builtin_number(arg)
    if is_exact(arg):
        return exact(arg)
    plain = native(arg)
    if plain is not None:
        return _operand(row, plain, alone)
    advice = ": an operator takes no list; write sg.tensor(list)" if isinstance(arg, list) else hint(arg)
    raise TypeError(f"{row.name}(): arguments must be tensors or numbers, got {describe(arg)}{advice}")


def _cast(a: Any, dtype: Any) -> Any:
    """Return an operand in the dtype that the kernel computes in; Python scalars stay weak where NumPy treats them as PyTorch does."""
    if a.__class__ is ndarray:
        return a if a.dtype == dtype else local.mode.run(a.astype, dtype)
    if a is None or (kind(dtype) in "fc" and a.__class__ is not bool):
        return a
    return asarray(a).astype(dtype)


def _rounded(a: Any, dtype: Any) -> Any:
    """Return a Python number rounded to half precision."""
    return local.mode.run(asarray(a).astype, dtype) if a.__class__ is float or a.__class__ is int else a


def _valueless(meta: Any) -> Any:
    """Return an array of the right shape and dtype without memory, in place of the result of a kernel that does not run."""
    if isinstance(meta, tuple):
        return tuple(_valueless(m) for m in meta)
    return np.broadcast_to(np.zeros((), meta.dtype), meta.shape)


def _run_checked(mode: Any, row: Row, arrays: list[Any], attrs: dict[str, Any]) -> Any:
    """Run a kernel on dtypes other than float32 and float64, or under a capture.

    Half precision is computed in float32 and rounded at the end, as in PyTorch.
    """
    unsupported = _unsupported(row, arrays)
    if unsupported is not None:
        raise unsupported
    if mode.capture is not None and mode.capture.abstract:
        try:
            return _valueless(row.type(*arrays, **attrs))
        except UnknownSize:
            mode.capture.before_escape(None, sized(row.name))
            raise
    half = [a.__class__ is ndarray and is_half(a.dtype) for a in arrays]
    if True not in half or row.view or row.name == "cast" or row.pullback is not None:  # compiled kernels handle half precision themselves
        return mode.run(row.numpy, *arrays, **attrs)
    lifted = [a.astype(FLOAT32) if h else a for a, h in zip(arrays, half, strict=True)]
    out = mode.run(row.numpy, *lifted, **attrs)
    if all(kind(o.dtype) not in "fc" for o in (out if row.outputs != 1 else (out,))):
        return out  # indices or booleans
    if row.name in ("unique", "unique_consecutive"):  # some of the elements; there is no type without their number
        return (out[0].astype(arrays[0].dtype), *out[1:])
    meta = row.type(*arrays, **attrs)
    if row.outputs == 1:
        return mode.run(asarray, out, meta.dtype)  # overflow becomes infinity without a warning
    return tuple(mode.run(asarray, o, m.dtype) for o, m in zip(out, meta, strict=True))


def _unsupported(row: Row, arrays: Any) -> Exception | None:
    """Return the error for operands of a dtype kind that the row does not support, if there are any."""
    for a in arrays:
        if a.__class__ is ndarray and kind(a.dtype) not in row.kinds:
            return NotImplementedError(f'"{row.name}_cpu" not implemented for \'{type_word(a.dtype)}\'')
    return None


def _plain(row: Row, args: tuple[Any, ...], out: Any) -> Any:
    if row.outputs == 1:
        return wrap(out)
    results = tuple(wrap(o) for o in out)
    if row.view:
        for t in results:
            share(t, args[0], None)
    return results


def _record(row: Row, args: tuple[Any, ...], attrs: dict[str, Any], arrays: list[Any], out: Any, needs: tuple[bool, ...]) -> Any:
    keep = keeps(row, needs)
    row = variant(row, arrays)
    edges, saved, cells = [], [], []
    for x, a, k in zip(args, arrays, keep, strict=False):  # keep has more entries, for the results
        edge = x if not isinstance(x, Tensor) else x._node or edge_of(x)
        edges.append(edge)
        saved.append(edge if not k or is_symbolic_scalar(x) else a)  # a symbolic scalar is saved as such: it may differ at the next run
        if k and isinstance(x, Tensor):
            cells.append(version_cell(x))
    if row.outputs != 1:
        return _record_several(make_node(row, tuple(edges), attrs, tuple(saved), None, None), args, out, keep[len(args) :], cells)
    result = wrap(out)
    if result._array.dtype.kind in "biu":
        return _plain(row, args, out)  # a cast to integers ends the history
    if keep[-1]:
        cells.append(result._version_cell)
    kept_out = result._array if keep[-1] else None
    node = make_node(row, tuple(edges), attrs, tuple(saved), kept_out, tuple(cells) or None)
    node.shape, node.dtype = result._array.shape, result._array.dtype
    result._node, result._requires_grad = node, True
    return result


def _record_several(node: Node, args: tuple[Any, ...], out: Any, kept: tuple[bool, ...], cells: list[Any]) -> tuple[Tensor, ...]:
    """Return the results of a row with several outputs; `kept` says which of them the node saves."""
    results = tuple(wrap(o) for o in out)
    kept = kept or (False,) * len(results)
    node.cells = (*cells, *(t._version_cell for t, k in zip(results, kept, strict=True) if k)) or None
    node.shape, node.dtype = tuple(t._array.shape for t in results), tuple(t._array.dtype for t in results)
    if any(kept):
        node.out = tuple(t._array if k else None for t, k in zip(results, kept, strict=True))
    for i, t in enumerate(results):
        if kind(t._array.dtype) in "fc":
            t._requires_grad, t._node = True, Output(node, i)
    if node.row.view:
        for t in results:
            share(t, args[0], None)
    return results


def make_node(row: Row, inputs: tuple[Any, ...], attrs: dict[str, Any], saved: Any, out: Any, cells: Any) -> Node:
    """Return a node of the recorded graph, without shape and dtype."""
    node: Node = new_node(Node)
    node.row, node.inputs, node.attrs = row, inputs, attrs
    node.saved, node.out, node.cells = saved, out, cells
    node.sequence, node.hooks = next_sequence(), None
    return node


def failure(row: Row, args: tuple[Any, ...], attrs: dict[str, Any], error: Exception | None = None) -> Exception:
    """Return the error for a kernel that refused its operands: that of the type rule, if the rule refuses them too."""
    if isinstance(error, TraceError):
        return error
    metas = tuple(x._array if isinstance(x, Tensor) else x for x in args)
    try:
        row.type(*metas, **attrs)
    except (RuntimeError, ValueError, IndexError, TypeError) as clear:
        return clear
    unsupported = _unsupported(row, metas)
    if unsupported is not None:
        return unsupported
    if isinstance(error, (SymgradError, NotImplementedError)):
        return error
    given = ", ".join(describe(m) for m in metas)
    return (TypeError if isinstance(error, TypeError) else RuntimeError)(f"{row.name}: {error} (got {given})")
