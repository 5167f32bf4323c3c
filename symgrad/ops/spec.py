"""What a row of the op table is: everything that the system knows of one primitive.

Data arguments are positional, metadata is keyword. A rule is `vjp(xp, g, out, *args, **attrs)`, one for each data argument
(None: no derivative in it), written with infix operators and `xp.<row>` only, so that it runs on arrays, recorded tensors
and graph values alike. A row with several outputs receives `g` and `out` as tuples; in `g` an output that nobody used is None.
`saves` names what each rule reads the *values* of, out of the row's arguments and `out` (`out1`: one of several outputs): nothing
else is kept for backward.
What is not saved still has `.shape` and `.dtype` in the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One primitive, column by column."""

    name: str
    args: tuple[str, ...]
    """Names of the data arguments. A single name with a star ("*tensors") takes any number; a star on the last of several
    ("x *indices") takes any number of arguments that have no derivative."""
    numpy: Callable[..., Any]
    """The kernel on raw ndarrays."""
    vjp: tuple[Rule | None, ...]
    """One rule for each data argument. A row that takes any number has one rule, which is also given `index`."""
    saves: tuple[frozenset[str], ...]
    """For each rule the names it reads values of; in a row that takes any number, `others` are all arguments but the rule's own."""
    policy: str
    """How operand types meet: see `symgrad.ops.promotion`."""
    type: Callable[..., Any]
    """`type(*metas, **attrs)` gives the Meta of the result (a tuple of them for several outputs) or raises a clear error."""
    sympy: Callable[..., Any] | None = None
    """Meaning as mathematics, of scalars for elementwise rows: `sympy(sp, *args, **attrs)`. A meaning that is arithmetic, a Piecewise,
    or one function of SymPy's is written out in formulas; any other (softplus, say) stays whole there under the row's name."""
    jax: str | Callable[..., str] | None = None
    """Lowering as source text: a dotted name to call with the operands and, as keywords, the attributes; or a function of the operands'
    texts (which stand wherever a name can) and the attributes, giving one expression. It may use `jnp` and `jax` and names that it binds
    itself, and no other (of the built-in ones tuple, slice, range, len and int); an attribute goes in as its `repr`. Operands have the
    types that the promotion policy gave them, and `jnp` may be relied on to keep them.
    Without one it is an operator where Python has one, else `jnp.<name of the NumPy ufunc, or of the row>`."""
    compose: Callable[..., Any] | None = None
    """A fused row as what it is made of, `compose(xp, *args, **attrs)`, written as rules are: formulas come from it, and kernels too
    where there is no jax column."""
    prepare: Callable[..., Any] | None = None
    """What all rules begin with, `prepare(xp, g, out, *args, **attrs)`: it is computed once for a node, and the rules receive it as `g`.
    `saves` counts what it reads for each of them."""
    pullback: Callable[..., Any] | None = None
    """All rules at once, for a user's Function: `pullback(backend, node, g, needs)` gives one cotangent for each argument."""
    foreign: Any = None
    """What the name in the jax column of an imported function stands for: see `symgrad.compiler.interop.from_jax`."""
    attrs: tuple[str, ...] = ()
    """Names of the keyword arguments."""
    may_copy: bool = False
    """A view whose kernel has to copy where strides cannot say it: reshape."""
    tie: bool = False
    """The gradient requires grad in PyTorch although its derivative is zero: relu and its like, pools."""
    outputs: int = 1
    elementwise: bool = False
    view: bool = False
    """The kernel's result shares memory with its first argument."""
    display: str | Callable[..., str] | None = None
    """PyTorch's name for the backward node, where it is not `<Name>Backward0`."""
    kinds: str = "bifc"
    """The kinds of numbers that the kernel takes: booleans, integers, floats, complex."""
    complex: str = "analytic"
    """How the rules treat complex numbers: `analytic` rules are conjugated (see `symgrad.ops.variants`), a row's `own` are left as
    they are, or complex numbers are `refused`."""
    domain: tuple[float, float] = (-2.0, 2.0)
    """Where tests draw inputs of an elementwise row from."""
    special: tuple[Any, ...] = field(default=())
    """Points worth testing: ties, zeros, edges of the domain."""

    variadic: bool = field(init=False)
    differentiable: bool = field(init=False)
    plain: bool = field(init=False)
    """One output and a rule for each argument: what the loop of the backward pass does itself."""

    def __post_init__(self) -> None:
        variadic = bool(self.args) and self.args[0].startswith("*")
        object.__setattr__(self, "variadic", variadic)
        object.__setattr__(self, "differentiable", self.pullback is not None or any(rule is not None for rule in self.vjp))
        object.__setattr__(self, "plain", self.outputs == 1 and not variadic and self.pullback is None and self.prepare is None)

    def rule(self, index: int) -> Rule | None:
        return self.vjp[min(index, len(self.vjp) - 1)]

    def reads(self, index: int) -> frozenset[str]:
        return self.saves[min(index, len(self.saves) - 1)]

    def names(self, count: int) -> tuple[str, ...]:
        """The argument name of each of `count` arguments."""
        last = self.args[-1] if self.args else ""
        if not last.startswith("*"):
            return self.args
        return self.args[:-1] + (last[1:],) * (count - len(self.args) + 1)

    def title(self, node: Any) -> str:
        """`AddBackward0`."""
        if callable(self.display):
            return self.display(node)
        return self.display or "".join(word.title() for word in self.name.split("_")) + "Backward0"

    def __repr__(self) -> str:
        return f"<row {self.name}({', '.join(self.args)})>"


@dataclass(frozen=True, slots=True)
class Meta:
    """Shape and NumPy dtype of a value that is not at hand."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)
