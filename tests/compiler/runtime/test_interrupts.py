"""KeyboardInterrupt anywhere in a compiled step: the step is done as a whole, or not at all; random numbers included."""

from __future__ import annotations

import dis
import linecache
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

PACKAGE = str(Path(sg.__file__).parent)


class Interrupt:
    """Raises at the n-th place in the package's own code where Python looks for signals: at the start of a function, or after a call.

    Between a call whose result is returned from a `with` block and the end of the block Python looks once, inside of the call: an exception
    after it would leave a lock locked, which Ctrl-C cannot do. So nothing is raised on the way out of a block.
    """

    def __init__(self, n):
        self.left, self.raised = n, False
        self.inside, self.calls = set(), set()
        """Blocks that were entered, by frame and line; frames whose last instruction was a call."""

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.entered)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def entered(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        self.looked()
        return self.stepped

    def stepped(self, frame, event, arg):
        line = frame.f_lineno or 0  # some instructions have none
        place = id(frame), line
        is_block = linecache.getline(frame.f_code.co_filename, line).lstrip().startswith("with ")
        if event == "line" and is_block:
            self.inside ^= {place}
        elif event == "opcode":
            called = id(frame) in self.calls
            self.calls.discard(id(frame))
            if called and (not is_block or place in self.inside):
                self.looked()
            if dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL"):
                self.calls.add(id(frame))
        return self.stepped

    def looked(self):
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


class Interrupted:
    """A descriptor that does what another does, and is interrupted right after it."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def __getattr__(self, name):
        def call(*args):
            getattr(self.descriptor, name)(*args)
            raise KeyboardInterrupt

        return call


@pytest.mark.parametrize("descriptor", ["_array_slot", "_class_slot"])
@pytest.mark.parametrize("there", [True, False], ids=["to the device", "to the host"])
def test_a_tensor_on_its_way_can_be_read(monkeypatch, descriptor, there):
    import jax

    resident = sys.modules["symgrad.device_tensor"]
    t = sg.tensor([1.0, 2.0]) if there else resident.tensor_from_storage(jax.device_put(np.float32([1, 2])))
    with monkeypatch.context() as patch:
        patch.setattr(resident, descriptor, Interrupted(getattr(resident, descriptor)))
        with pytest.raises(KeyboardInterrupt):
            resident.to_device(t, jax.device_put(np.float32([1, 2]))) if there else t._array
    assert t[1].item() == 2
    assert (t + 1).tolist() == [2, 3]
    assert "1., 2." in repr(t)
