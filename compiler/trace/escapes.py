"""Escapes to Python while a function is traced: recorded, turned into path conditions, or refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.guards.conditions import MetadataCondition, as_python_value
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.graph_break import escape_error
from symgrad.compiler.trace.histories import refuse_backward
from symgrad.compiler.trace.values import TracedValues
from symgrad.errors import SymgradError, TraceError
from symgrad.escapes import Escape, EscapeKind, Metadata
from symgrad.lines import raised_at
from symgrad.tensor import Tensor, offset_of, wrap

_MAX_LISTED_NUMBERS = 1024
"""tolist() of a larger integer tensor is refused instead of guarded: it is data, which differs from call to call, not a list of sizes."""


class EscapeRecorder(TracedValues):
    """The events of a tracer that concern values and texts that leave for Python."""

    def before_escape(self, source: Tensor | Sequence[Tensor] | None, escape: Escape) -> None:
        """Record the escape of a tensor's values to Python, add a path condition for it, or raise: see `symgrad.escapes`."""
        if self._record_escape(source, escape):
            return
        error = escape_error(escape)
        self.refused = user_line(), type(error)(*error.args)  # a copy: the raised error keeps all frames and their tensors alive
        raise error

    def _record_escape(self, source: Any, escape: Escape) -> bool:
        """Record or guard an escape, and return True; False if it must be refused."""
        match escape.kind:
            case EscapeKind.BACKWARD:
                return self.effects and self._record_backward(source)
            case EscapeKind.GRADIENT:
                self.differentiated = True
                return True
            case EscapeKind.CONDITION:
                return self._guard_number(source, escape)
            case EscapeKind.LIST:
                return self.allow_branches and self._guard_list(source)
            case EscapeKind.MASK:
                return self.allow_branches and not self.inline_scalars  # `apply_data_dependent` guards its size
            case EscapeKind.VALUE:
                return False

    def _record_backward(self, tensors: Any) -> bool:
        """Note a call of backward(); raise TraceError if it would continue into history recorded before the call, which no program can
        repeat."""
        refuse_backward(tensors, self.input_histories)
        self.backward_ran = self.differentiated = True
        return True

    def _guard_number(self, t: Tensor, escape: Escape) -> bool:
        """Guard the number that Python gets from a tensor by a path condition."""
        if t._array.size != 1:
            return True  # the conversion itself raises, as in eager code
        if self.allow_branches and escape.asks is not None:
            text = f"{escape.asks.__name__}(tensor) at {user_line()}"
            self.path.add(as_python_value(self.value(t), escape.asks), escape.asks(t._array.item()), text)
        return self.allow_branches

    def _guard_list(self, t: Tensor) -> bool:
        """Guard tolist() of a small integer or boolean tensor by one path condition: all elements are what they are now."""
        if t._array.dtype.kind not in "biu" or t._array.size > _MAX_LISTED_NUMBERS:
            return False
        value, frozen = self.value(t), wrap(t._array.copy())
        if self.path.is_constant(value):
            return True
        same = xp.all(xp.eq(value, self.captured_value(frozen)), axis=tuple(range(value.ndim)), keepdims=False)
        self.storages[id(frozen._array)].external = None
        self.path.constants.add(self.value(frozen))
        self.path.add(same, True, f"whether tolist() at {user_line()} gives {t._array.tolist()}")
        return True

    def on_metadata_read(self, t: Tensor, metadata: Metadata) -> None:
        """Make the metadata of the arguments conditions of the program. The layout of a result follows from those of all arguments. Only
        traces with effects know the histories of arguments."""
        if metadata is Metadata.HISTORY and not (self.effects and any(t is x for x in self.input_tensors[: self.arguments])):
            return
        for i, given in enumerate(self.given):
            if (i, metadata) not in self.metadata_read and isinstance(given, (Tensor, np.ndarray)):
                self.metadata_read.add((i, metadata))
                self._refuse_offset(given)
                self.path.add_scalar_condition(MetadataCondition(self.inputs[i], metadata, given))

    def _refuse_offset(self, given: Any) -> None:
        """Raise TraceError for a view that starts inside the memory of its base: traces for derivatives have arguments of their own."""
        if not self.effects and isinstance(given, Tensor) and offset_of(given):
            raise TraceError(
                f"{user_line()}: the layout of a tensor is read, and derivatives are asked for at a view of a part of another tensor; pass"
                " a clone() of it"
            )

    def original_refusal(self, error: BaseException) -> BaseException:
        """The refused escape's error if `error` was raised at the same line, else `error`: NumPy and `struct` replace an exception raised
        inside them by their own."""
        if self.refused is None or isinstance(error, SymgradError) or raised_at(error) != self.refused[0]:
            return error
        return self.refused[1]

    def first_redaction(self, line: str) -> bool:
        """Note that the text of a tensor was made at `line`, and return True at the first time."""
        known = line in self.redacted_lines
        self.redacted_lines.add(line)
        return not known

    def on_print(self, text: str, tensors: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Record a `debug.print()` and return whether to print now. A program with effects prints at every run, the traced call included;
        one without effects only computes values and never prints."""
        if self.effects:
            self.prints.append((text, [self._printed(x) for x in tensors], {k: self._printed(x) for k, x in named.items()}))
        return self.effects

    def _printed(self, x: Any) -> Any:
        return self.value(x) if isinstance(x, Tensor) else x

    def check_foreign_use(self, values: Iterable[Any]) -> None:
        """Raise TraceError if `values`, operands of an op in another thread, contain an argument of this function or a tensor that it
        created: ops of that thread are not recorded."""
        arguments = set(map(id, self.input_tensors[: self.arguments]))
        for t in values:
            storage = self.root_storage(t) if isinstance(t, Tensor) else None
            if storage is not None and (storage.external is None or id(storage.external) in arguments):
                raise TraceError(
                    f"{user_line()}: a tensor of a function that is being traced is used in another thread, where nothing is recorded;"
                    " compute in the thread of the call, or leave the function eager"
                )
