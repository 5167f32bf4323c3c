"""A test body through compile(): what it reads, what it writes, and all derivatives are the same by a kernel.

The body runs once, under the trace of a compiled function, on real values, so that its own assertions hold or fail as ever. Each number
that it reads becomes a result of the traced program. Then what the call did to tensors is taken back, and the kernel does it: it must give
the same results, leave the same values and gradients behind, and its results must have the same derivatives.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from under_compiler.observing import Observing, Session, eps_of, observed_reads, unwatched

import symgrad as sg
from symgrad.compiler.function import builder
from symgrad.compiler.trace import trace as tracing
from symgrad.errors import TraceError
from symgrad.tensor import Tensor

gradcheck = importlib.import_module("symgrad.autograd.gradcheck")  # the package has a function of that name


class Different(AssertionError):
    """A kernel gives something else than eager code."""


class NotCompiled(Exception):
    """The trace made no program."""


class NothingToCompile(Exception):
    """The test runs no op."""


def run_compiled(body, backend: str) -> None:
    """Run a test body under a trace and by a kernel.

    Tensors that it makes are inputs of the program, if that is possible, and derivatives are compared, if the test does not notice.
    """
    errors: list[BaseException] = []
    for outside, differentiate in ((True, True), (True, False), (False, False)):
        try:
            _attempt(body, Session(backend, outside, differentiate))
        except (Different, NothingToCompile):
            raise
        except (Exception, pytest.fail.Exception) as error:  # the trace refuses something, or the test notices it
            errors.append(error)
        else:
            return
    raise errors[0]


def _attempt(body, session: Session) -> None:
    compiled = sg.compile(functools.partial(_program, body, session), backend=session.backend)
    with observed_reads(session), _observing(session):
        try:
            found = compiled()
        except TraceError:
            if session.ops:
                raise
    if not session.ops:
        if session.checks:
            return
        raise NothingToCompile
    step = compiled._latest
    if step is None:
        raise NotCompiled("tensors share memory that is written to")
    if step.runner is not None:
        found = _again(compiled, session)
    _compare(session, found)


def _program(body, session: Session):
    body()
    if not session.read and session.last is not None:
        session.observe(session.last, "the last op")
    session.last = None
    found, session.results = tuple(session.results), []
    return found or None


@contextmanager
def _observing(session: Session):
    """The next trace is that of the body; gradcheck checks compiled functions."""

    def make(*args):
        if session.capture is not None:
            return capture(*args)
        Observing.session = session
        session.capture = Observing(*args)
        return session.capture

    def leaves_nothing(traced) -> bool:
        session.inputs = [box.external for box in traced.capture.storages.values() if box.external is not None]
        escaped(traced)  # which lets go of what the trace holds
        return False

    def check_compiled(func, *rest):
        with unwatched():
            session.checks += 1
            return check(sg.compile(func, backend=session.backend), *rest)

    capture, escaped, check = tracing.GraphTracer, builder.has_escaped_tensors, gradcheck._check
    with (
        mock.patch.object(tracing, "GraphTracer", make),
        mock.patch.object(builder, "has_escaped_tensors", leaves_nothing),
        mock.patch.object(builder, "find_state_guards", return_value=[]),  # Python's state, which a test may change: the body runs once
        mock.patch.object(gradcheck, "_check", check_compiled),
    ):
        yield


def _again(compiled, session: Session):
    """Take back what the traced call did, and let the kernel do it."""
    after = [(t, *_state(t)) for t in session.inputs if t._base is None]
    session.capture.journal.restore()
    with mock.patch.object(builder.ProgramBuilder, "_trace", _traced_again):
        found = compiled()
    for t, values, grad in after:
        now = _state(t)
        _same(now[0], values, "a tensor that is written to")
        if (now[1] is None) != (grad is None):
            raise Different(f".grad is {now[1]}, eagerly {grad}")
        if grad is not None:
            _same(now[1], grad, ".grad")
    return found


def _traced_again(self, call, **_):
    raise Different(f"traced again: {self._reasons(call)}")


def _state(t: Tensor):
    return t.detach()._array.copy(), None if t._grad is None else t._grad.detach()._array.copy()


def _compare(session: Session, found) -> None:
    for read, line, eps, result in zip(session.read, session.lines, session.eps, found or (), strict=True):
        _same(result.detach()._array, read, f"what was read by {line}", eps)
    if not session.leaves:
        return
    pairs = [(r, sg.from_numpy(w)) for r, w in zip(found, session.weights, strict=True) if w is not None]
    with sg.enable_grad():
        gradients = sg.autograd.grad([r for r, _ in pairs], session.leaves, [w for _, w in pairs], allow_unused=True)
    for leaf, g in zip(session.leaves, gradients, strict=True):
        want = session.gradients[id(leaf)]
        _same(np.zeros_like(want) if g is None else g.detach()._array, want, "the gradient of all that was read", max(session.eps))


def _same(found, expected, what: str, eps: float = 0.0) -> None:
    """An error if numbers differ by more than rounding, of which `eps` may be coarser than their type."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        raise Different(f"{what}: {found.dtype} {found.shape}, eagerly {expected.dtype} {expected.shape}")
    if found.dtype.kind in "biu":
        if not np.array_equal(found, expected):
            raise Different(f"{what}: {found}, eagerly {expected}")
        return
    eps = max(eps, eps_of(found.dtype))
    tolerance = 2e3 * eps if eps < 1e-10 else 200 * eps if eps < 1e-5 else 20 * eps
    numbers = expected.astype(complex)
    scale = np.abs(numbers[np.isfinite(numbers)]).max(initial=1.0)
    try:
        np.testing.assert_allclose(found.astype(complex), numbers, rtol=tolerance, atol=tolerance * scale)
    except AssertionError as error:
        raise Different(f"{what}: {error}") from None
