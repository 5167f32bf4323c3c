"""Outcomes of the calls in `malformed_calls` and `malformed_objects`: PyTorch's, as recorded, and those in which symgrad differs.

`malformed_outcomes.json` has what PyTorch does, and `malformed_differences.json` what symgrad does where that is something else.
Run this file with PyTorch to write both anew, and read the changes: `PYTHONPATH=. python tests/support/malformed_record.py`.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from malformed_calls import Case, Library, function_cases
from malformed_objects import object_cases

OUTCOMES = Path(__file__).with_name("malformed_outcomes.json")
DIFFERENCES = Path(__file__).with_name("malformed_differences.json")
Outcome = tuple[str, float | None]
"""Types and shapes of the results or the class of the error, and a figure of the numbers if there are any."""
NOT_UNIQUE = {"svd", "eig", "eigh", "new_empty", "resize_as_", "resize_"}
"""Functions whose numbers are a matter of choice: signs of vectors, and memory that is not initialized."""
OF_ANOTHER_CLASS = {"0:'x'": ("TypeError", None), "0:None": ("TypeError", None)}
"""Cases that methods do not have; written with them all the same, so that a function and its method have one entry."""


def all_cases() -> dict[str, list[Case]]:
    """Cases by the name of the function or class."""
    return dict((*function_cases(), *object_cases()))


def outcomes(module: Any, name: str, cases: Iterable[Case]) -> dict[str, Outcome]:
    """The outcome of every case in a library, by label; nothing if it has no such function."""
    library = Library(module)
    if name.partition(".")[0] not in ("nn", "optim", "lr_scheduler") and library.find(name) is None:
        return {}
    unique = name.rpartition(".")[2] not in NOT_UNIQUE
    found = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for label, run in cases:
            try:
                result = run(library)
            except Exception as error:
                lax = isinstance(error, AttributeError) and module.__name__ == "torch"  # its functions in Python do not look at types
                found[label] = ("TypeError" if lax else type(error).__name__, None)
            else:
                text = ", ".join(described(result, module.Tensor))
                found[label] = (text, figure(result, module.Tensor) if unique and "float16" not in text else None)
    return found


def described(result: Any, tensor: type) -> list[str]:
    """Types and shapes of all parts of a result."""
    if isinstance(result, tensor):
        return [f"{str(result.dtype).rpartition('.')[2]}{list(result.shape)}".replace(" ", "")]
    if isinstance(result, (tuple, list)):
        return [text for part in result for text in described(part, tensor)] or ["()"]
    return [type(result).__name__]


def figure(result: Any, tensor: type) -> float | None:
    """A number that changes when an element changes, or moves to another place; None without elements."""
    total, place, size = 0.0, 0, 0
    for array in arrays(result, tensor):
        flat = array.reshape(-1).astype(np.complex128)
        flat = np.where(np.isnan(flat), 3.0, np.clip(flat.real, -1e6, 1e6) + 0.7j * np.clip(flat.imag, -1e6, 1e6))
        total += float(np.cos(np.arange(place, place + flat.size)) @ (flat.real + flat.imag))
        place, size = place + flat.size + 1, size + flat.size
    return float(f"{round(total, 4):.4g}") if size else None


def arrays(result: Any, tensor: type) -> list[np.ndarray[Any, Any]]:
    """All numbers in a result."""
    if isinstance(result, tensor):
        return [np.array(result.detach().tolist())]
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in arrays(part, tensor)]
    return [np.array(result)] if isinstance(result, (bool, int, float, complex)) else []


def same(one: Outcome | None, other: Outcome | None) -> bool:
    """Whether two outcomes agree, figures to three digits."""
    if one is None or other is None or one[0] != other[0] or (one[1] is None) != (other[1] is None):
        return False
    if one[1] is None or other[1] is None:
        return True
    return math.isclose(one[1], other[1], rel_tol=1e-3, abs_tol=1e-3)


def differing(found: dict[str, Outcome], wanted: dict[str, Outcome]) -> dict[str, Outcome | None]:
    """The outcomes that are not as wanted; None for a label that is missing."""
    return {label: found.get(label) for label in {**wanted, **found} if not same(found.get(label), wanted.get(label))}


def packed(table: dict[str, Outcome]) -> dict[str, str]:
    """A table with the labels of equal outcomes in one text: `0:int|half dim=9`."""
    texts: dict[str, dict[str, list[str]]] = {}
    for label, (text, number) in sorted(table.items()):
        key, colon, kind = label.partition(":") if ":" in label else label.partition("=")
        texts.setdefault(text if number is None else f"{text} {number:g}", {}).setdefault(key + colon, []).append(kind)
    return {text: " ".join(key + "|".join(kinds) for key, kinds in labels.items()) for text, labels in texts.items()}


def unpacked(texts: dict[str, str]) -> dict[str, Outcome]:
    table: dict[str, Outcome] = {}
    for outcome, labels in texts.items():
        text, _, number = outcome.rpartition(" ") if outcome[-1:].isdigit() and " " in outcome else (outcome, "", "")
        for group in labels.split(" "):
            key, colon, kinds = group.partition(":") if ":" in group else group.partition("=")
            table |= {key + colon + kind: (text, float(number) if number else None) for kind in kinds.split("|")}
    return table


def read(path: Path) -> dict[str, dict[str, Outcome]]:
    """Tables of outcomes by name. In the file, functions with the same table are in one entry."""
    tables = {name: unpacked(texts) for names, texts in json.loads(path.read_text()).items() for name in names.split(" ")}
    return {name: {k: v for k, v in t.items() if not (is_method(name) and k in OF_ANOTHER_CLASS)} for name, t in tables.items()}


def is_method(name: str) -> bool:
    return name.startswith("Tensor.")


def write(path: Path, tables: dict[str, dict[str, Outcome]]) -> None:
    groups: dict[str, list[str]] = {}
    for name, table in tables.items():
        if table:
            more = OF_ANOTHER_CLASS if is_method(name) and "valid:" in table else {}
            groups.setdefault(json.dumps(packed({**table, **more}), separators=(",", ":")), []).append(name)
    path.write_text("{\n" + ",\n".join(f"{json.dumps(' '.join(names))}: {text}" for text, names in groups.items()) + "\n}\n")


def main() -> None:
    import torch

    import symgrad as sg

    cases = all_cases()
    recorded = {name: outcomes(torch, name, several) for name, several in cases.items()}
    found = {name: outcomes(sg, name, several) for name, several in cases.items() if recorded[name]}
    write(OUTCOMES, recorded)
    write(DIFFERENCES, {name: differing(table, recorded[name]) for name, table in found.items()})


if __name__ == "__main__":
    main()
