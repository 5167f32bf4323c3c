"""Bratu's equation on a grid of 100,000 points: heat that a reaction makes, and that flows out at the edges.

    u_xx + u_yy + λ exp(u) = 0   in the unit square,   u = 0 at its edges

What is shown: the residual is written with slices of tensors, and `sg.optimize.root(..., "newton")` does the rest. Its Jacobian has 10¹⁰
elements, of which 500,000 are not zero. Which these are follows from the program (`fast.sparsity()` shows them), and one kernel computes
them from their closed form: four diagonals of numbers, and one that depends on u. The reaction gets stronger from one solve to the next,
up to λ = 6.8, close to the point from which on there is no solution: the square would burn.
"""

from __future__ import annotations

import time

import numpy as np
from common import BLUE, GREEN, ORANGE, canvas, options, save

import symgrad as sg

STRENGTHS = 3.0, 6.0, 6.8


def residual(u, strength):
    """How far u misses the equation at the points inside; differences of second order."""
    side = u.shape[0]
    p = sg.nn.functional.pad(u, (1, 1, 1, 1))
    laplacian = p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1] - 4 * u
    return laplacian * (side + 1) ** 2 + strength * sg.exp(u)


def solve(side):
    """A solution for each strength, each one the start for the next, and the largest residual after each step of Newton's method."""
    u, solutions, histories = np.zeros((side, side)), [], []
    for strength in STRENGTHS:
        history = [np.abs(sg.compile(residual)(u, strength)).max()]
        start = time.perf_counter()
        seen = lambda x, fx, history=history: history.append(np.abs(fx).max())
        found = sg.optimize.root(residual, u, "newton", args=(strength,), callback=seen)
        if not found.success:
            raise RuntimeError(f"λ = {strength}: {found.message}")
        u = found.x
        print(f"  λ = {strength:.1f}   {found.nit} steps in {time.perf_counter() - start:4.1f} s   largest u {u.max():.4f}")
        solutions.append(u)
        histories.append(history)
    return solutions, histories


def picture(path, solutions, histories):
    side = len(solutions[0])
    figure, (left, middle, right) = canvas(f"Bratu's equation with {side**2:,} unknowns, by Newton's method", (3.8, 3.8, 3.8), height=3.8)
    place = np.arange(1, side + 1) / (side + 1)
    image = left.contourf(place, place, solutions[-1], levels=16, cmap="inferno")
    left.set(aspect="equal", xlabel="x", ylabel="y", title=f"u at λ = {STRENGTHS[-1]}")
    figure.colorbar(image, ax=left, format="%.1f")
    small = np.zeros((12, 12))
    sg.compile(residual).sparsity(small, 1.0, wrt="u").plot(middle)
    middle.set(title="Nonzeros of the Jacobian, for 12 × 12", xlabel="input", ylabel="result")
    for strength, history, colour in zip(STRENGTHS, histories, (BLUE, GREEN, ORANGE), strict=True):
        right.semilogy(history, "o-", color=colour, label=f"λ = {strength}")
    right.set(xlabel="step", ylabel="largest residual", title="Each step squares the error")
    right.legend(frameon=False)
    save(figure, path)


def main(argv=None):
    args = options(__file__, __doc__, argv, side=(317, 40))
    pattern = sg.compile(residual).sparsity(np.zeros((args.side, args.side)), 1.0, wrt="u")
    print(f"{args.side**2:,} unknowns; of the Jacobian, {pattern.nnz:,} elements are not zero ({pattern.method})")
    solutions, histories = solve(args.side)
    picture(args.output, solutions, histories)
    return {"solutions": solutions, "histories": histories, "pattern": pattern}


if __name__ == "__main__":
    main()
