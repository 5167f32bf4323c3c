"""The matrix of terms by brute force, entry by entry: the oracle of everything that is computed from terms."""

from __future__ import annotations

from math import prod

import numpy as np

from symgrad.compiler.algebra.affine import Lookup
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.interpret import evaluate


def dense(terms, inputs, arrays, rows, columns):
    """Return the array of shape (*rows, *columns) that the terms describe for these inputs of the graph."""
    values = list(dict.fromkeys(v for t in terms for v in _leaves(t)))
    known = dict(zip(values, evaluate(Graph(inputs, values), arrays), strict=True))
    result = np.zeros((*rows, *columns))
    for t in terms:
        labels = sorted(t.product.bound | t.placed, key=lambda label: label.serial)
        count = prod(label.size for label in labels)
        grid = dict(zip(labels, np.indices([label.size for label in labels]).reshape(len(labels), count), strict=True))
        at = lambda indices, n=count, g=grid: tuple(np.broadcast_to(_index(i, g, known), n) for i in indices)
        held = np.ones(count, bool)
        for e, low, high in t.product.brackets:
            (index,) = at([e])
            held &= (low <= index) & (index < high)
        found = np.full(count, float(t.product.coefficient))
        for v, indices in t.product.factors:
            places = tuple(np.where(held, i, 0) for i in at(indices))
            found = found * (known[v][places] if places else known[v])
        place = tuple(i[held] for i in at((*t.rows, *t.columns)))
        if place:
            np.add.at(result, place, found[held])
        else:
            result += found[held].sum()
    return result


def _leaves(t):
    for v, at in t.product.factors:
        yield v
        for i in at:
            yield from _looked_up(i)
    for i in (*t.rows, *t.columns, *(e for e, _, _ in t.product.brackets)):
        yield from _looked_up(i)


def _looked_up(i):
    for label in i.labels:
        if isinstance(label, Lookup):
            yield label.value
            for j in label.at:
                yield from _looked_up(j)


def _index(e, grid, known):
    total = np.array(e.constant)
    for label, k in e.coefficients:
        if isinstance(label, Lookup):
            places = zip((_index(i, grid, known) for i in label.at), label.value.shape, strict=True)
            found = known[label.value][tuple(np.clip(i, 0, n - 1) for i, n in places)]  # brackets exclude all others
            total = total + k * np.where(found < 0, found + label.size, found)
        else:
            total = total + k * grid[label]
    return total
