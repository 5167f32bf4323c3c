"""The description of an exported function: names, types and containers of its arguments and results, and which programs there are.

It is read field by field: any header either yields a description that `Description.json` could have written, or raises a FileError that
says why not.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symgrad import dtypes
from symgrad.compiler.export import pytree_json as structure
from symgrad.compiler.ir.graph import type_text
from symgrad.errors import FileError
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta

FORMAT, VERSION = "symgrad function", 1
_KINDS = {
    "positional": inspect.Parameter.POSITIONAL_ONLY,
    "any": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "*": inspect.Parameter.VAR_POSITIONAL,
    "keyword": inspect.Parameter.KEYWORD_ONLY,
    "**": inspect.Parameter.VAR_KEYWORD,
}
_NAMES = {value: name for name, value in _KINDS.items()}
_MAX_DIMENSIONS, _MAX_ELEMENTS = 64, 2**48


@dataclass(frozen=True)
class Parameter:
    """A parameter of the function: its name, how it is passed, and the structure of its tensors."""

    name: str
    kind: Any
    structure: Any
    default: Any = None
    """The default of an argument with inputs, as a structure of values; None if it has none, or none that a file holds."""

    def json(self) -> dict[str, Any]:
        default = {} if self.default is None else {"default": self.default}
        return {"name": self.name, "kind": _NAMES[self.kind], "structure": self.structure, **default}


@dataclass(frozen=True)
class Input:
    """An input of the programs: a tensor among the arguments, or one of the state."""

    label: str
    meta: Meta
    requires_grad: bool = False
    number: bool = False
    """True for a Python number: it is differentiated only if `wrt` names it."""


@dataclass(frozen=True)
class Description:
    """The description of an exported function."""

    name: str
    parameters: tuple[Parameter, ...]
    arguments: tuple[Input, ...]
    state: tuple[Input, ...]
    differentiable: tuple[int, ...]
    """The inputs that some result is differentiable in: the others get no gradients from backward()."""
    results: tuple[Meta, ...]
    structure: Any
    platform: str
    hash: str
    versions: Mapping[str, str]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (*self.arguments, *self.state)

    @property
    def wrt(self) -> tuple[int, ...]:
        """The inputs that can be selected for gradients."""
        return tuple(i for i, x in enumerate(self.inputs) if kind(x.meta.dtype) in "fc")

    @property
    def is_scalar(self) -> bool:
        """True if the function has a gradient: one floating-point result of one element, and a floating-point input."""
        return len(self.results) == 1 and math.prod(self.results[0].shape) == 1 and kind(self.results[0].dtype) in "fc" and bool(self.wrt)

    def programs(self) -> dict[str, tuple[list[Meta], list[Meta]]]:
        """Return the programs that a file must have, each with the types of its inputs and outputs."""
        inputs = [x.meta for x in self.inputs]
        found = {"forward": (inputs, list(self.results))}
        if self.differentiable:
            found["vjp"] = ([*inputs, *self.results], [inputs[i] for i in self.differentiable])
        if self.is_scalar:
            found["value_and_grad"] = (inputs, [*self.results, *(inputs[i] for i in self.wrt)])
        return found

    def __str__(self) -> str:
        arguments = ", ".join(f"{x.label}: {type_text(x.meta)}" for x in self.arguments)
        state = "".join(f"\n    with {x.label}: {type_text(x.meta)}" for x in self.state)
        return f"{self.name}({arguments}) -> {', '.join(map(type_text, self.results))}{state}"

    def json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "parameters": [p.json() for p in self.parameters],
            "arguments": [{"label": x.label, **_typed(x.meta), "number": x.number} for x in self.arguments],
            "state": [{"label": x.label, **_typed(x.meta), "requires_grad": x.requires_grad} for x in self.state],
            "sloping": list(self.differentiable),
            "results": [_typed(m) for m in self.results],
            "structure": self.structure,
            "platform": self.platform,
            "graph": self.hash,
            "versions": dict(self.versions),
        }


def described(header: dict[str, Any]) -> Description:
    """Return the description that a file's header holds; raise FileError if it is invalid."""
    if header.get("format") != FORMAT:
        raise FileError(f"it has no {FORMAT} in it")
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise FileError(f"it is of version {header.get('version')!r}, and this symgrad reads version {VERSION}")
    known = {
        "format", "version", "name", "parameters", "arguments", "state", "sloping", "results", "structure", "platform", "graph", "versions",
    }  # fmt: skip
    if header.keys() != known:
        raise FileError(f"its header should have {', '.join(sorted(known))}, and has {', '.join(sorted(header))}"[:500])
    arguments = tuple(_input(x, ("label", "shape", "dtype", "number")) for x in _list(header, "arguments"))
    results = tuple(_meta(x, "a result") for x in _list(header, "results"))
    structure.check(header["structure"], len(results))
    if not results:
        raise FileError("its function has no results")
    versions = header["versions"]
    if not isinstance(versions, dict) or not all(isinstance(v, str) for v in versions.values()):
        raise FileError("its versions are no object of texts")
    state = tuple(_input(x, ("label", "shape", "dtype", "requires_grad")) for x in _list(header, "state"))
    return Description(
        _text(header, "name"),
        _parameters(_list(header, "parameters"), len(arguments)),
        arguments,
        state,
        _sloping(_list(header, "sloping"), (*arguments, *state)),
        results,
        header["structure"],
        _text(header, "platform"),
        _text(header, "graph"),
        versions,
    )


def _typed(m: Meta) -> dict[str, Any]:
    return {"shape": list(m.shape), "dtype": m.dtype.name}


def _text(node: dict[str, Any], key: str) -> str:
    if not isinstance(node[key], str):
        raise FileError(f"its {key} is {str(node[key])[:80]!r}, and should be a text")
    return str(node[key])


def _list(node: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(node[key], list):
        raise FileError(f"its {key} is {str(node[key])[:80]!r}, and should be a list")
    return list(node[key])


def _fields(node: Any, names: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(node, dict) or node.keys() != set(names):
        raise FileError(f"{what} is {str(node)[:80]}, and should have {', '.join(names)}")
    return node


def _input(node: Any, names: tuple[str, ...]) -> Input:
    _fields(node, names, "an input")
    flag = node[names[-1]]
    if type(flag) is not bool:
        raise FileError(f"{names[-1]} of an input is {str(flag)[:80]!r}, and should be true or false")
    return Input(_text(node, "label"), _meta({"shape": node["shape"], "dtype": node["dtype"]}, "an input"), **{names[-1]: flag})


def _meta(node: Any, what: str) -> Meta:
    _fields(node, ("shape", "dtype"), what)
    shape, name = node["shape"], node["dtype"]
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(type(n) is int and 0 <= n < _MAX_ELEMENTS for n in shape):
        raise FileError(f"the shape of {what} is {str(shape)[:80]}, and should be a list of sizes")
    if math.prod(shape) > _MAX_ELEMENTS:
        raise FileError(f"the shape of {what} is {str(shape)[:80]}: so many elements there cannot be")
    found = next((d for d in dtypes.ALL if d.name == name), None)
    if found is None:
        raise FileError(f"the dtype of {what} is {str(name)[:80]!r}; there are {', '.join(d.name for d in dtypes.ALL)}")
    return Meta(tuple(shape), found.dtype)


def _sloping(nodes: list[Any], inputs: tuple[Input, ...]) -> tuple[int, ...]:
    can = [i for i, x in enumerate(inputs) if kind(x.meta.dtype) in "fc"]
    if not all(type(i) is int for i in nodes) or [i for i in can if i in nodes] != nodes:
        raise FileError(f"its sloping inputs are {str(nodes)[:80]}, and should be some of {can[:20]}, in order")
    return tuple(nodes)


def _parameters(nodes: list[Any], leaves: int) -> tuple[Parameter, ...]:
    found = []
    for node in nodes:
        has_default = isinstance(node, dict) and "default" in node
        _fields(node, ("name", "kind", "structure", *["default"] * has_default), "a parameter")
        if has_default:
            structure.check(node["default"], 0)
        name = _text(node, "name")
        if not name.isidentifier() or not isinstance(node["kind"], str) or node["kind"] not in _KINDS:
            raise FileError(f"a parameter is {name[:80]!r}, of kind {str(node['kind'])[:80]!r}: no parameter of Python's is like that")
        found.append(Parameter(name, _KINDS[node["kind"]], node["structure"], node.get("default")))
    structure.check({"tuple": [p.structure for p in found]}, leaves)
    try:
        inspect.Signature([inspect.Parameter(p.name, p.kind) for p in found])
        for p in found:
            inspect.Parameter(p.name, p.kind, default=inspect.Parameter.empty if p.default is None else ...)
    except ValueError as error:
        raise FileError(f"its parameters are none of a Python function: {error}") from None
    return tuple(found)
