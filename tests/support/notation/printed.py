"""Print formulas of many generated functions: run under several hash seeds, the text must be the same."""

from __future__ import annotations

import sys

import symgrad as sg
from tests.support.notation.generated import NAMES, function


def x_of(shape: tuple[int, ...]) -> sg.spec:
    return sg.spec(shape, sg.float64)


def texts(count: int) -> list[str]:
    specs = {name: x_of(shape) for name, shape in NAMES.items()}
    own = [
        sg.derive(lambda x, A: (x @ A @ x).log(), wrt="x", order=2)(x_of((3,)), x_of((3, 3))),
        sg.derive(lambda x, A: (x @ A @ x) / (x @ x) + (A @ x).sum() * x.sum(), wrt="x", order=2)(x_of((3,)), x_of((3, 3))),
        sg.derive(lambda x, y: (x @ y).softmax(0)[0] * x.logsumexp(0).max(), order=2)(x_of((3, 2)), x_of((2, 3))),
    ]
    for seed in range(count):
        wrt, order = (("x", 2), ("A", 1), ("b", 2), ("B", 1), (("x", "A"), 1))[seed % 5]
        own.append(sg.derive(function(seed), wrt=wrt, order=order, notation=("auto", "auto", "index")[seed % 3])(**specs))
    return [f"{d}\n{d.latex()}" for d in own]


if __name__ == "__main__":
    print("\n\n".join(texts(int(sys.argv[1]))))
