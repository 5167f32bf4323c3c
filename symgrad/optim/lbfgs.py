"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.autograd import enable_grad, no_grad
from symgrad.functional import cat, view_as_real
from symgrad.optim.line_search import Point, strong_wolfe
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, check_rate
from symgrad.tensor import Tensor


class LBFGS(Optimizer):
    """Newton's direction from the last `history_size` changes of parameters and gradient; several evaluations in every step."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to max_iter steps. The closure clears the gradients, computes the loss and its gradients, and returns the loss."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that evaluates the loss and its gradients: it is called several times")
        with no_grad():
            return self._minimize(enable_grad()(closure), self.param_groups[0])

    def _minimize(self, closure: Callable[[], Any], group: Group) -> Any:
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        here = Point(0.0, float(first), self._gradient(), 0.0)
        state["func_evals"] += 1
        if _largest(here.gradient) <= group["tolerance_grad"]:
            return first
        evaluations, change = 1, group["tolerance_change"]
        for n in range(group["max_iter"]):
            self._turn(state, here, group["history_size"])
            d = state["d"]
            state["t"] = float(group["lr"])
            if state["n_iter"] == 1:
                state["t"] *= min(1.0, 1.0 / here.gradient.abs().sum().item())
            here = here._replace(t=0.0, slope=here.gradient.dot(d).item())
            if here.slope > -change:
                break
            last = n == group["max_iter"] - 1
            here, calls = self._advance(closure, here, state, group, group["max_eval"] - evaluations, last)
            evaluations += calls
            state["func_evals"] += calls
            if last or evaluations >= group["max_eval"] or _largest(here.gradient) <= group["tolerance_grad"]:
                break
            if _largest(d * state["t"]) <= change or abs(here.loss - state["prev_loss"]) < change:
                break
        return first

    def _turn(self, state: State, here: Point, history_size: int) -> None:
        """The next direction: minus the gradient, times what the history says of the inverse Hessian."""
        gradient = here.gradient
        state["n_iter"] += 1
        if state["n_iter"] == 1:
            state.update(d=-gradient, t=None, old_dirs=[], old_stps=[], ro=[], H_diag=1)
        else:
            _remember(state, gradient, history_size)
            state["d"] = _newton(state, gradient, history_size)
        state.update(prev_flat_grad=gradient.clone(), prev_loss=here.loss)

    def _advance(
        self, closure: Callable[[], Any], here: Point, state: State, group: Group, limit: int, last: bool
    ) -> tuple[Point, int]:
        """Go along the direction; where that leads, and how often the closure was called."""
        d, t = state["d"], state["t"]
        if group["line_search_fn"] is None:
            self._add(d * t)
            return (here, 0) if last else (Point(t, float(closure()), self._gradient(), 0.0), 1)
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [p.clone() for p in self._params]

        def at(t: float) -> Point:
            self._add(d * t)
            loss, gradient = float(closure()), self._gradient()
            for p, value in zip(self._params, start, strict=True):
                p.copy_(value)
            return Point(t, loss, gradient, gradient.dot(d).item())

        found, calls = strong_wolfe(at, here, t, _largest(d), 1e-9, limit)
        state["t"] = found.t
        self._add(d * found.t)
        return found, calls

    # --- all parameters as one vector

    @property
    def _params(self) -> list[Any]:
        return self.param_groups[0]["params"]  # type: ignore[no-any-return]

    def _gradient(self) -> Any:
        return cat([_flat(p.new_zeros(p.shape) if p.grad is None else p.grad) for p in self._params])

    def _add(self, change: Any) -> None:
        start = 0
        for p in self._params:
            p = view_as_real(p) if p.is_complex() else p
            p.add_(change[start : start + p.numel()].view(p.shape))
            start += p.numel()


def _flat(x: Any) -> Any:
    return (view_as_real(x) if x.is_complex() else x).reshape(-1)


def _largest(x: Any) -> float:
    return x.abs().max().item()  # type: ignore[no-any-return]


def _remember(state: State, gradient: Any, history_size: int) -> None:
    """How the gradient changed with the last step, unless the curvature along it was not positive."""
    changed, moved = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    product = changed.dot(moved)
    if product.item() <= 1e-10:
        return
    if len(state["old_dirs"]) == history_size:
        for name in ("old_dirs", "old_stps", "ro"):
            state[name].pop(0)
    state["old_dirs"].append(changed)
    state["old_stps"].append(moved)
    state["ro"].append(1.0 / product)
    state["H_diag"] = product / changed.dot(changed)


def _newton(state: State, gradient: Any, history_size: int) -> Any:
    """The two loops over the history, from the last change to the first and back."""
    history = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
    factors = state.setdefault("al", [None] * history_size)
    q = -gradient
    for i, (changed, moved, ro) in reversed(list(enumerate(history))):
        factors[i] = moved.dot(q) * ro
        q.sub_(changed * factors[i])
    d = q * state["H_diag"]
    for i, (changed, moved, ro) in enumerate(history):
        d.add_(moved * (factors[i] - changed.dot(d) * ro))
    return d
