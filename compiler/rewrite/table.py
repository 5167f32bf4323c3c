"""A table of rules as a pass: each application that a rule matches becomes the rule's right side, arguments first."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.ir.pattern import Pattern
from symgrad.compiler.ir.rule import Application, Rule, RuleIndex
from symgrad.compiler.rewrite.rewrite import rewrite

Hits = dict[str, int]
"""How often each rule was applied, by its name."""
_REMEMBERED = 1000


class Table:
    """Rules that serve one purpose. `table(graph)` applies them; a rule in `off`, or all if the table's own name is in it, is left out.

    A table matches normal forms (see `symgrad.compiler.ir.normal_form`); with normal=False it matches what is there."""

    def __init__(self, name: str, *rules: Rule, normal: bool = True) -> None:
        self.name = self.__name__ = name
        self.rules = rules
        self.index = RuleIndex(rules, normal=normal)
        self._needs = {rule: rule.needs for rule in rules}
        self._makes = {rule: rule.result.ops if isinstance(rule.result, Pattern) else frozenset[str]() for rule in rules}
        self._relevant: dict[frozenset[str], frozenset[Rule]] = {}

    def __str__(self) -> str:
        return "\n".join([self.name, *(f"    {rule.name}: {rule}" for rule in self.rules)])

    def __repr__(self) -> str:
        return f"<table {self.name}: {', '.join(rule.name for rule in self.rules)}>"

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __call__(self, graph: Graph, off: Container[str] = (), hits: Hits | None = None) -> Graph:
        """Return the graph with the rules applied; the graph itself if none can be."""
        if self.name in off or not self.may_apply(graph):
            return graph
        heads = self.index.by_op
        relevant = self.relevant(graph.ops)

        def change(v: Value, args: tuple[Any, ...]) -> Any:
            return self.apply(v, args, off, hits, relevant) if v.op in heads else None

        return rewrite(graph, change)

    def relevant(self, ops: frozenset[str]) -> frozenset[Rule]:
        """Return the rules whose ops a graph has, or gets from the right side of such a rule."""
        if ops not in self._relevant:
            known, found = set(ops), set[Rule]()
            while more := [r for r in self.rules if r not in found and not any([need.isdisjoint(known) for need in self._needs[r]])]:
                found.update(more)
                known.update(*[self._makes[r] for r in more])
            if len(self._relevant) >= _REMEMBERED:
                self._relevant.clear()
            self._relevant[ops] = frozenset(found)
        return self._relevant[ops]

    def may_apply(self, graph: Graph) -> bool:
        """True if a rule matches a value of the graph, or of a loop or branch in it."""
        relevant, heads = self.relevant(graph.ops), self.index.by_op
        if not relevant or heads.keys().isdisjoint(graph.ops):
            return False
        for v in graph.values:
            if v.op in heads and not isinstance(v.dtype, tuple):
                application = Application(v.op, v.args, v.attrs, v.shape, v.dtype)
                for rule in self.index.may_apply(v.op, v.args):
                    if rule in relevant and rule.find(application, self.index.normal) is not None:
                        return True
        return any(map(self.may_apply, graph.within))

    def apply(
        self, v: Value, args: tuple[Any, ...], off: Container[str] = (), hits: Hits | None = None, relevant: Container[Rule] | None = None
    ) -> Value | None:
        """Return what replaces the row of `v` applied to `args`, None if no rule applies."""
        if isinstance(v.dtype, tuple):
            return None
        application = Application(v.op, args, v.attrs, v.shape, v.dtype)
        for rule in self.index.may_apply(v.op, args):
            if rule.name not in off and (relevant is None or rule in relevant):
                found = rule.apply(xp, application, self.index.normal)
                if found is not None:
                    if hits is not None:
                        hits[rule.name] = hits.get(rule.name, 0) + 1
                    return found
        return None
