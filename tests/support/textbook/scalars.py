"""Derivatives of functions of numbers."""

from __future__ import annotations

import math

import symgrad as sg
from tests.support.textbook.entry import entries

POWERS, RULES, TRIG = "Stewart, Calculus, section 3.1", "Stewart, Calculus, section 3.2", "DLMF section 4.20"
CHAIN, INVERSE, LOGS = "Stewart, Calculus, section 3.4", "DLMF section 4.24", "Stewart, Calculus, section 3.6"
HYPERBOLIC, LEIBNIZ = "DLMF section 4.34", "DLMF (1.4.12), Leibniz's formula"


def _relu(x: sg.Tensor) -> sg.Tensor:
    return x.relu()


SCALARS = entries(
    True,
    (POWERS, lambda x: x**3 - 2 * x + 1, "x", "x", "3*x**2 - 2"),
    (POWERS, lambda x: x**5, "x", "x", "60*x**2", {"order": 3}),
    (POWERS, lambda x: 1 / x, "x+", "x", "-1/x**2"),
    (POWERS, lambda x: x.sqrt(), "x+", "x", "1/(2*sqrt(x))"),
    (POWERS, lambda x: x**3 / 3, "x", "x", "x**2"),
    (POWERS, lambda r: math.pi * r**2, "r", "r", "2*pi*r"),
    (POWERS, lambda r: 4 / 3 * math.pi * r**3, "r", "r", "4*pi*r**2"),
    (POWERS, lambda x, n: x**n, "x+ n+", "x", "n*x**(n - 1)"),
    (RULES, lambda x: x * (-x).exp(), "x", "x", "(1 - x)*exp(-x)"),
    (RULES, lambda x: x.log() / x, "x+", "x", "(1 - log(x))/x**2"),
    (RULES, lambda x: (x**2 + 1) / (x**2 - 1), "x>1", "x", "-4*x/(x**2 - 1)**2"),
    (RULES, lambda x: x / (1 + x), "x+", "x", "1/(x + 1)**2"),
    (RULES, lambda x: x.sin() / x, "x+", "x", "(x*cos(x) - sin(x))/x**2"),
    (RULES, lambda x: x.sin() * x.cos(), "x", "x", "cos(2*x)"),
    (CHAIN, lambda x: (x**2).sin(), "x", "x", "2*x*cos(x**2)"),
    (CHAIN, lambda x: x.sin() ** 2, "x", "x", "2*sin(x)*cos(x)"),
    (CHAIN, lambda x: x.sin().exp(), "x", "x", "exp(sin(x))*cos(x)"),
    (CHAIN, lambda x: (1 - x**2).sqrt(), "x<1", "x", "-x/sqrt(1 - x**2)"),
    (CHAIN, lambda x, y: (x**2 + y**2).sqrt(), "x y", "x", "x/sqrt(x**2 + y**2)"),
    (CHAIN, lambda x: (-(x**2) / 2).exp(), "x", "x", "-x*exp(-x**2/2)"),
    (CHAIN, lambda x, a, b: (a * x).exp() * (b * x).sin(), "x a b", "x", "(a*sin(b*x) + b*cos(b*x))*exp(a*x)"),
    (TRIG, lambda x: x.tan(), "x<1", "x", "1 + tan(x)**2"),
    (INVERSE, lambda x: x.asin(), "x<1", "x", "1/sqrt(1 - x**2)"),
    (INVERSE, lambda x: x.acos(), "x<1", "x", "-1/sqrt(1 - x**2)"),
    (INVERSE, lambda x: x.atan(), "x", "x", "1/(1 + x**2)"),
    (INVERSE, lambda x: (1 / x).atan(), "x+", "x", "-1/(1 + x**2)"),
    (INVERSE, lambda x: (x + (x**2 + 1).sqrt()).log(), "x", "x", "1/sqrt(x**2 + 1)"),
    (HYPERBOLIC, lambda x: x.cosh().log(), "x", "x", "tanh(x)"),
    (HYPERBOLIC, lambda x: x.tanh(), "x", "x", "1 - tanh(x)**2"),
    (LOGS, lambda x: x**x, "x+", "x", "x**x*(log(x) + 1)"),
    (LOGS, lambda x: (x**2 + 1).log(), "x", "x", "2*x/(x**2 + 1)"),
    (LOGS, lambda x: x.log().log(), "x>1", "x", "1/(x*log(x))"),
    (LOGS, lambda x: 2**x, "x", "x", "2**x*log(2)"),
    (LOGS, lambda x: (x / (1 - x)).log(), "x<1", "x", "1/(x*(1 - x))"),
    (LEIBNIZ, lambda x: x * x.exp(), "x", "x", "(x + 5)*exp(x)", {"order": 5}),
    (LEIBNIZ, lambda x: x**2 * x.exp(), "x", "x", "(x**2 + 6*x + 6)*exp(x)", {"order": 3}),
    ("Spivak, Calculus, chapter 20", lambda x: 1 / (1 - x), "x<1", "x", "3628800/(1 - x)**11", {"order": 10}),
    ("Spivak, Calculus, chapter 20", lambda x: x.log(), "x+", "x", "-120/x**6", {"order": 6}),
    ("Spivak, Calculus, chapter 20", lambda x: x.sin(), "x", "x", "sin(x)", {"order": 4}),
    ("DLMF section 7.10", lambda x: sg.erf(x), "x", "x", "2*exp(-x**2)/sqrt(pi)"),
    ("Boyd, Convex Optimization, section 6.1.2", lambda r: sg.where(r.abs() <= 1, r**2 / 2, r.abs() - 0.5), "r", "r", "max(-1, min(r, 1))"),
    ("Boyd, Convex Optimization, section 8.6", lambda x: _relu(x) ** 2 / 2, "x", "x", "max(0, x)"),
)
