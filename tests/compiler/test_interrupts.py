"""KeyboardInterrupt anywhere in a compiled step: the step is done as a whole, or not at all; random numbers included."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

PACKAGE = str(Path(sg.__file__).parent)


class Interrupt:
    """Raises at the n-th place in the package's code where Python looks for signals: at the start of a function, or after a native call.

    Not at any line: on the way out of a `with` block Python comes to the line of `with` once more, and looks for no signal. An exception
    at that place would leave a lock locked, which Ctrl-C cannot do.
    """

    def __init__(self, n):
        self.left, self.raised = n, False

    def __enter__(self):
        sys.setprofile(self.seen)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def seen(self, frame, event, arg):
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE):
            self.left -= 1
            if not self.left:
                self.raised = True
                raise KeyboardInterrupt


class Trainer:
    """A step with momentum, counters, gradients and random numbers, and all its state as arrays."""

    def __init__(self, backend):
        sg.manual_seed(0)
        self.parameters = [sg.ones(3, requires_grad=True), sg.zeros(2, requires_grad=True)]
        self.moments = [sg.zeros(3), sg.zeros(2)]
        self.counters = [sg.zeros(()), sg.zeros(())]
        self.step = sg.compile(self._step, backend=backend)
        for _ in range(3):
            self.step(sg.ones(3))

    def _step(self, x):
        w, b = self.parameters
        w.grad = b.grad = None
        loss = ((w * x * sg.rand(3)).sum() + b.sum() - 1) ** 2
        loss.backward()
        with sg.no_grad():
            for p, m, n in zip(self.parameters, self.moments, self.counters, strict=True):
                n.add_(1)
                m.mul_(0.9).add_(p.grad)
                p.sub_(m * 0.01 / n)
        return loss

    def state(self):
        tensors = [*self.parameters, *(p.grad for p in self.parameters), *self.moments, *self.counters]
        return [sg.get_rng_state().numpy().tobytes(), *(t.detach().numpy().tobytes() for t in tensors)]


def wide_numbers():
    """Whether JAX has 64-bit numbers now; if it was never imported, it has not."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.config.jax_enable_x64


def runs_in_another_thread(trainer):
    thread = threading.Thread(target=trainer.step, args=[sg.ones(3)], daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


def interrupted_everywhere(backend, first, apart):
    """Compare the states after interrupts with those of a trainer that nobody has interrupted."""
    other, expected = Trainer(backend), []
    for _ in range(30):
        expected.append(other.state())
        other.step(sg.ones(3))
    trainer, done, n, undone = Trainer(backend), 0, first, 0
    while True:
        with Interrupt(n) as interrupt:
            try:
                trainer.step(sg.ones(3))
            except KeyboardInterrupt:
                assert interrupt.raised
        now = trainer.state()
        assert now in (expected[done], expected[done + 1]), f"torn at place {n}"
        assert not wide_numbers(), f"JAX's setting is left changed at place {n}"
        finished = now == expected[done + 1]
        undone += not finished
        if not interrupt.raised:
            assert runs_in_another_thread(trainer), "a lock is left locked"
            return finished, undone
        done, n = done + finished, n + apart
        if done == 28:
            trainer, done = Trainer(backend), 0


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_interrupts_leave_a_step_done_or_not_done(backend):
    finished, undone = interrupted_everywhere(backend, 2, 3 if backend == "numpy" else 4)
    assert finished
    assert undone > 5


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_interrupts_at_every_place(backend):
    assert interrupted_everywhere(backend, 1, 1)[0]


def test_the_comparison_sees_a_moved_generator():
    trainer = Trainer("numpy")
    before = trainer.state()
    np.testing.assert_equal(before, trainer.state())
    sg.rand(1)
    assert before != trainer.state()
