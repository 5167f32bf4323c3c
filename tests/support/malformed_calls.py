"""Calls that may be refused: every public function and method with one argument or option at a time of another type, shape or value.

The calls start from those of `public_calls`; options and their defaults are read from the signatures. `malformed_objects` has the cases of
layers, optimizers, schedules and initializations, and `malformed_record` compares the outcomes with PyTorch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from public_calls import OPTIONS, RECIPES, T, V, call_of, fresh, public_functions, public_methods

import symgrad as sg

Case = tuple[str, Callable[["Library"], Any]]
"""A label, and the call in one of the two libraries."""

NUMBERS = [-7, 9, 0.5, True, "x", None]
"""What is given in the place of a number."""
TENSORS: dict[str, Callable[[sg.Tensor], Any]] = {
    "int": lambda t: t.long(),
    "bool": lambda t: t.bool(),
    "complex": lambda t: t.to(sg.complex64),
    "double": lambda t: t.double(),
    "half": lambda t: t.half(),
    "number": lambda t: t.reshape(-1)[:1].sum(),
    "deeper": lambda t: t.unsqueeze(0),
    "shorter": lambda t: t[:-1] if t.ndim else t.reshape(1)[:0],
    "empty": lambda t: t[:0] if t.ndim else t.reshape(1)[:0],
    "'x'": lambda t: "x",
    "None": lambda t: None,
}
"""Changes of a tensor."""
NOT_COMPARED = {
    "out", "generator", "device", "layout", "pin_memory", "memory_format", "names", "requires_grad", "foreach", "fused", "capturable",
    "_stacklevel",
}  # fmt: skip
"""Options that are about memory, devices and random numbers."""
WORDS = {
    "reduction": ["none", "sum", "mean", "batchmean"],
    "mode": ["nearest", "bilinear", "linear", "reflect", "replicate", "circular", "mean", "max", "reduced", "fan_out"],
    "padding_mode": ["reflect", "replicate", "circular", "border"],
    "padding": ["same", "valid"],
    "norm": ["ortho", "forward"],
    "ord": ["fro", "nuc"],
    "p": ["fro", "nuc"],
    "reduce": ["sum", "prod", "mean", "amax"],
    "approximate": ["tanh"],
    "nonlinearity": ["relu", "linear", "tanh"],
    "rounding_mode": ["floor", "trunc"],
    "interpolation": ["lower", "midpoint"],
    "side": ["left"],
    "driver": ["gelsd", "gesvd"],
    "indexing": ["xy"],
    "line_search_fn": ["strong_wolfe"],
    "anneal_strategy": ["linear"],
    "threshold_mode": ["abs"],
    "scale_mode": ["cycle"],
}  # fmt: skip
"""Words that options of these names may take."""


class Library:
    """symgrad or PyTorch, its functions by their names, and arguments as its own objects."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.spaces = {
            "sg": module, "sg.linalg": module.linalg, "sg.special": module.special, "sg.fft": module.fft, "F": module.nn.functional,
            "Tensor": module.Tensor, "init": module.nn.init,
        }  # fmt: skip

    def find(self, name: str) -> Any:
        space, _, word = name.rpartition(".")
        return getattr(self.spaces[space], word, None)

    def own(self, x: Any) -> Any:
        """A copy of an argument that belongs to this library."""
        if isinstance(x, (tuple, list)):
            return type(x)(map(self.own, x))
        if isinstance(x, sg.Tensor):
            return x.clone() if self.module is sg else self.module.tensor(x.numpy())
        if isinstance(x, sg.dtype):
            return getattr(self.module, str(x).rpartition(".")[2])
        return self.module.Tensor if x is sg.Tensor else x


def with_one_replaced(name: str, args: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Arguments of which one (or every tensor) is replaced, is missing, or is one too many, and their label."""
    for i, x in enumerate(args):
        several: dict[str, Any] = {}
        if isinstance(x, sg.Tensor):
            several = {kind: change(x) for kind, change in TENSORS.items()}
        elif isinstance(x, (int, float)):
            several = {written(value): value for value in NUMBERS}
        for kind, value in several.items():
            if i or isinstance(value, sg.Tensor) or not name.startswith("Tensor."):  # other classes have other methods
                yield f"{i}:{kind}", (*args[:i], value, *args[i + 1 :])
    if sum(isinstance(x, sg.Tensor) for x in args) > 1:  # one of another type is most often refused for the difference
        for kind in ("int", "bool", "complex"):
            yield f"all:{kind}", tuple(TENSORS[kind](x) if isinstance(x, sg.Tensor) else x for x in args)
    yield "less:", args[:-1]
    yield "more:", (*args, "x")


def values(name: str, default: Any) -> list[Any]:
    """Other values of an option, by the kind of its default: some are valid, and some are not."""
    if name == "dtype":
        return [sg.float64, sg.int64, sg.complex64, "x"]
    words = WORDS.get(name, [])
    if isinstance(default, bool):
        return [not default]  # PyTorch's functions in Python take anything for a boolean
    if name in ("size_average", "reduce") and default is None:
        return [True, False]
    if isinstance(default, int):
        return [default + 1, 0, -7, 0.5, "x", *words]
    if isinstance(default, float):
        return [2 * default + 0.25, 0, -1.0, "x", *words]
    if isinstance(default, str):
        return [*(word for word in words if word != default), "x", 1]
    return [0, 1, 9, 0.5, True, "x", (0,), T(V), *words]


def written(value: Any) -> str:
    """A value in a label, without spaces."""
    if isinstance(value, sg.Tensor):
        return "tensor"
    return str(value).rpartition(".")[2] if isinstance(value, sg.dtype) else repr(value).replace(" ", "")


def options(f: Callable[..., Any], given: int = 0) -> Iterator[tuple[str, Any]]:
    """Names of the options of a function behind its given arguments, and other values of each."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return
    for i, p in enumerate(parameters):
        if p.default is not p.empty and p.name not in NOT_COMPARED and not (i < given and p.kind is not p.KEYWORD_ONLY):
            yield from ((p.name, value) for value in values(p.name, p.default))


def call(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Callable[[Library], Any]:
    """The call in either library, with the same random numbers."""

    def run(library: Library) -> Any:
        library.module.manual_seed(0)
        return library.find(name)(*library.own(args), **{key: library.own(value) for key, value in given.items()})

    return run


def cases_of(name: str, f: Callable[..., Any], args: tuple[Any, ...]) -> list[Case]:
    """A valid call, and those with one argument or option replaced."""
    given = OPTIONS.get(name, {})
    found = [("valid:", call(name, args, given))]
    found += [(label, call(name, changed, given)) for label, changed in with_one_replaced(name, args)]
    several = [(key, value) for key, value in options(f, len(args)) if key not in given]
    return found + [(f"{key}={written(value)}", call(name, args, {**given, key: value})) for key, value in several]


def function_cases() -> Iterator[tuple[str, list[Case]]]:
    """All public functions and methods, and their cases."""
    for name, f in (*public_functions(), *public_methods()):
        found = call_of(name, f, RECIPES)
        if found is not None:
            yield name, cases_of(name, f, fresh(found[0]))
