"""A line search for the strong Wolfe conditions: bracket a minimum along a direction, then narrow the bracket by cubics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from symgrad.tensor import Tensor

_DECREASE, _CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """How far along the direction, the loss there, its gradient, and its slope in the direction."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    at: Callable[[float], Point], start: Point, t: float, length: float, tolerance: float, limit: int
) -> tuple[Point, int]:
    """A point where the loss is low enough and the slope flat enough, or the best that `limit` steps found; and the evaluations.

    `length` is the largest entry of the direction: a bracket whose ends differ by less than `tolerance` is not narrowed.
    """

    def too_high(point: Point) -> bool:
        return point.loss > start.loss + _DECREASE * point.t * start.slope

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * start.slope

    before, new, rounds = start, at(t), 0
    while True:
        if rounds >= limit:
            bracket = [start, new]
            break
        if too_high(new) or (rounds > 1 and new.loss >= before.loss):
            bracket = [before, new]
            break
        if flat(new):
            return new, rounds + 1
        if new.slope >= 0:
            bracket = [before, new]
            break
        before, new = new, at(cubic_minimum(before, new, new.t + 0.01 * (new.t - before.t), new.t * 10))
        rounds += 1
    low, stuck = _lower(bracket), False
    while rounds < limit and abs(bracket[1].t - bracket[0].t) * length >= tolerance:
        t, stuck = _inside(bracket, stuck)
        new, rounds = at(t), rounds + 1
        if too_high(new) or new.loss >= bracket[low].loss:
            bracket[1 - low] = new
            low = _lower(bracket)
            continue
        if flat(new):
            return new, rounds + 1
        if new.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = new
    return bracket[low], rounds + 1


def _lower(bracket: list[Point]) -> int:
    return 0 if bracket[0].loss <= bracket[1].loss else 1


def _inside(bracket: list[Point], stuck: bool) -> tuple[float, bool]:
    """The next t to try; and whether it is close to an end, which is allowed once, lest the bracket hardly shrink."""
    left, right = sorted(point.t for point in bracket)
    t, margin = cubic_minimum(bracket[0], bracket[1], left, right), 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if not stuck and left < t < right:
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False


def cubic_minimum(a: Point, b: Point, lowest: float, highest: float) -> float:
    """Where the cubic with the values and slopes of two points is lowest, kept between bounds; their middle if there is no such place."""
    left, right = (a, b) if a.t <= b.t else (b, a)
    middle = (lowest + highest) / 2
    if left.t == right.t:
        return middle
    mean = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.t - right.t)
    square = mean**2 - left.slope * right.slope
    if not square >= 0:
        return middle
    root = math.sqrt(square)
    bend = right.slope - left.slope + 2 * root
    if bend == 0:
        return middle
    return min(max(right.t - (right.t - left.t) * ((right.slope + root - mean) / bend), lowest), highest)
