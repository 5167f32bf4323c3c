"""The LAPACK routines that a loaded program may call, with the types that each one requires.

A routine writes into memory that the types of its call describe, and checks only some of them: it would write past the end of a result that
is too small. So operands, results, layouts, aliases and options must be exactly those that JAX passes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from symgrad.errors import FileError

_FLAG = " = (65|67|76|78|82|83|84|85|86) : ui8"
_ELEMENTS = {"s": ("f32", "f32"), "d": ("f64", "f64"), "c": ("complex<f32>", "f32"), "z": ("complex<f64>", "f64")}
_ATTRIBUTES = {
    "call_target_name", "mhlo.backend_config", "mhlo.frontend_attributes", "operand_layouts", "output_operand_aliases", "result_layouts",
    "sdy.sharding_rule",
}  # fmt: skip


class _Form(NamedTuple):
    """One signature of a routine.

    In a type, the letter before the colon is the element type (T: that of the matrix, R: real, C: complex, i: int32), and the letters after
    it are sizes: m, n and r are arbitrary, k = min(m, n), j <= n <= m. The first result may overwrite an operand.
    """

    options: str
    operands: str
    results: str
    overwritten: int | None = 0


_FORMS = {
    "potrf": [_Form(f"uplo{_FLAG}", "T:nn", "T:nn i:")],
    "getrf": [_Form("", "T:mn", "T:mn i:k i:")],
    "geqrf": [_Form("", "T:mn", "T:mn T:k")],
    "orgqr": [_Form("", "T:mn T:j", "T:mn")],
    "ungqr": [_Form("", "T:mn T:j", "T:mn")],
    "syevd": [_Form(f"mode{_FLAG}, uplo{_FLAG}", "T:nn", "T:nn R:n i:")],
    "heevd": [_Form(f"mode{_FLAG}, uplo{_FLAG}", "T:nn", "T:nn R:n i:")],
    "geev": [
        _Form(f"compute_left{_FLAG}, compute_right{_FLAG}", "T:nn", "R:n R:n C:nn C:nn i:", overwritten=None),
        _Form(f"compute_left{_FLAG}, compute_right{_FLAG}", "T:nn", "T:n T:nn T:nn i:", overwritten=None),
    ],
    "gesdd": [
        _Form("mode = 65 : ui8", "T:mn", "T:mn R:k T:mm T:nn i:"),
        _Form("mode = (78|83) : ui8", "T:mn", "T:mn R:k T:mk T:kn i:"),
    ],
    "trsm": [
        _Form(f"diag{_FLAG}, side = 76 : ui8, trans_x{_FLAG}, uplo{_FLAG}", "T:nn T:nr", "T:nr", overwritten=1),
        _Form(f"diag{_FLAG}, side = 82 : ui8, trans_x{_FLAG}, uplo{_FLAG}", "T:nn T:rn", "T:rn", overwritten=1),
    ],
}


def check_call(operation: Any, target: str) -> bool:
    """True if a custom call is a LAPACK call; raise FileError if it is one with other types or options than JAX passes."""
    named = re.fullmatch(r"lapack_([sdcz])([a-z]+)_ffi", target)
    if named is None or named[2] not in _FORMS:
        return False
    if not any(_fits(form, named[1], operation) for form in _FORMS[named[2]]):
        raise FileError(f"a program calls {target} with other types or options than the routine has: {str(operation)[:200]}")
    return True


def _fits(form: _Form, prefix: str, operation: Any) -> bool:
    attributes = {a if isinstance(a, str) else a.name for a in operation.attributes}
    operands, results = [str(x.type) for x in operation.operands], [str(x.type) for x in operation.results]
    return (
        attributes == (_ATTRIBUTES if form.overwritten is not None else _ATTRIBUTES - {"output_operand_aliases"})
        and re.fullmatch(rf"\{{{form.options}\}}", str(operation.attributes["mhlo.backend_config"])) is not None
        and re.fullmatch(r'\{num_batch_dims = "\d+"\}', str(operation.attributes["mhlo.frontend_attributes"])) is not None
        and (form.overwritten is None or str(operation.attributes["output_operand_aliases"]) == _alias(form, len(results) > 1))
        and _same_types(form, prefix, operands, results)
        and _layouts(operation.attributes["operand_layouts"]) == list(map(_layout, form.operands.split(), operands))
        and _layouts(operation.attributes["result_layouts"]) == list(map(_layout, form.results.split(), results))
    )


def _alias(form: _Form, many: bool) -> str:
    places = f"output_tuple_indices = [{'0' if many else ''}], operand_index = {form.overwritten}, operand_tuple_indices = []"
    return f"[#stablehlo.output_operand_alias<{places}>]"


def _same_types(form: _Form, prefix: str, operands: Sequence[str], results: Sequence[str]) -> bool:
    wanted_operands, wanted_results = form.operands.split(), form.results.split()
    if (len(operands), len(results)) != (len(wanted_operands), len(wanted_results)):
        return False
    first = _shape(operands[0])
    if len(first) < 2:
        return False
    batch, (m, n) = first[:-2], first[-2:]
    last = _shape(operands[-1])
    sizes = {"m": m, "n": n, "k": min(m, n), "r": last[-1 if wanted_operands[-1] == "T:nr" else -2] if len(last) > 1 else 0}
    sizes["j"] = last[-1] if last else 0
    real = _ELEMENTS[prefix][1]
    elements = {"T": _ELEMENTS[prefix][0], "R": real, "C": f"complex<{real}>", "i": "i32"}

    def typed(form: str) -> str:
        element, _, letters = form.partition(":")
        return f"tensor<{''.join(f'{size}x' for size in (*batch, *(sizes[x] for x in letters)))}{elements[element]}>"

    square = form.operands.startswith("T:nn")
    reflectors = "T:j" not in wanted_operands or sizes["j"] <= n <= m
    same = [typed(w) for w in (*wanted_operands, *wanted_results)] == [*operands, *results]
    return same and reflectors and (m == n or not square)


def _shape(kind: str) -> tuple[int, ...]:
    return tuple(int(size) for size in re.findall(r"(\d+)x", kind))


def _layout(form: str, kind: str) -> list[int]:
    """Return the dimensions of a type from the fastest to the slowest: matrices in column-major order, batches outside."""
    fastest = list(range(len(_shape(kind)) - 1, -1, -1))
    return [fastest[1], fastest[0], *fastest[2:]] if len(form) == len("T:mn") else fastest


def _layouts(attribute: Any) -> list[list[int]]:
    return [[int(x) for x in re.findall(r"\d+", str(a).partition(":")[0])] for a in attribute]
