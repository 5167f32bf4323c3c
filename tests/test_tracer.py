"""The capture protocol: every tracer has every event, with the same signature, and observers forward all of them."""

from __future__ import annotations

import inspect
import re

import pytest

import symgrad as sg
import symgrad.testing.rows
from symgrad.compiler.trace.control_flow import BodyTracer, ControlFlowTracer
from symgrad.compiler.trace.tracer import GraphTracer
from symgrad.debug import NanWatch
from symgrad.mode import local
from symgrad.observer import Observer
from symgrad.tracer import ControlFlowBuilder, NullTracer, Tracer

STATE = {"abstract", "effects"}
EVENTS = sorted(Tracer.__abstractmethods__ - STATE)
RUN_BY_OBSERVERS = {"trace_once"}
"""Not forwarded: an observer runs the work each time, so that it observes every op."""


def subclasses(cls: type) -> set[type]:
    return {cls, *(x for sub in cls.__subclasses__() for x in subclasses(sub))}


def ours(cls: type) -> list[type]:
    return sorted((x for x in subclasses(cls) if x.__module__.startswith("symgrad.")), key=lambda x: x.__qualname__)


def test_the_protocol_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Tracer()
    assert len(EVENTS) > 30
    assert Tracer.__abstractmethods__ >= STATE


@pytest.mark.parametrize("cls", ours(Tracer), ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", EVENTS)
def test_signatures_are_those_of_the_protocol(cls, name):
    assert inspect.signature(getattr(cls, name)) == inspect.signature(getattr(Tracer, name))


@pytest.mark.parametrize("cls", [NullTracer, Observer, GraphTracer, BodyTracer])
def test_tracers_implement_everything(cls):
    assert not inspect.isabstract(cls)
    assert not any(hasattr(base, "__getattr__") for base in cls.__mro__)


@pytest.mark.parametrize("cls", ours(Tracer), ids=lambda cls: cls.__name__)
def test_no_tracer_has_events_of_its_own(cls):
    """An event that one tracer has and the protocol has not would be lost in front of an observer."""
    own = {name for name in vars(cls) if re.match(r"(on|before|after)_", name)}
    assert own <= set(EVENTS)


def test_observers_write_every_method():
    """Forwarding is explicit: nothing is inherited from the protocol by chance."""
    assert set(EVENTS) | STATE <= set(vars(Observer))
    assert set(EVENTS) | STATE <= set(vars(NullTracer))


class Recorder(NullTracer):
    """Notes each event with its arguments."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[object, ...]]] = []


def recorded(name):
    def event(self, *args):
        self.seen.append((name, args))
        return name, "result"

    return event


for event_name in EVENTS:
    setattr(Recorder, event_name, recorded(event_name))


@pytest.mark.parametrize("name", [name for name in EVENTS if name not in RUN_BY_OBSERVERS])
def test_observers_forward(name):
    outer = Recorder()
    observer = Observer(Observer(outer))
    args = tuple(object() for _ in list(inspect.signature(getattr(Tracer, name)).parameters)[1:])
    result = getattr(observer, name)(*args)
    assert outer.seen == [(name, args)]
    if inspect.signature(getattr(Tracer, name)).return_annotation != "None":
        assert result == (name, "result")


def test_observers_run_what_is_traced_once():
    outer, ran = Recorder(), []
    Observer(outer).trace_once("key", [], lambda: ran.append(1))
    assert ran == [1]
    assert outer.seen == []


def test_observers_have_the_state_of_the_outer_tracer():
    outer = GraphTracer(abstract=True, names={})
    assert Observer(outer).abstract
    assert not Observer(outer).effects
    assert not Observer(None).abstract


def test_a_null_tracer_changes_nothing():
    def f(x):
        y = (x * 2).sum()
        y.backward()
        return [y.item(), x.grad.tolist(), float(sg.rand(1, generator=sg.Generator().manual_seed(1))), bool(y > 0)]

    expected = f(sg.ones(3, requires_grad=True))
    before = local.mode.swap_capture(NullTracer())
    try:
        found = f(sg.ones(3, requires_grad=True))
    finally:
        local.mode.swap_capture(before)
    assert found == expected
    null = NullTracer()
    assert null.scalar_input((0, "lr"), lambda: 0.5) == 0.5
    assert null.cse("key", sg.ones(1), lambda: 7) == 7
    assert null.on_print("", (), {})
    assert null.control_flow() is None


def test_control_flow_signatures():
    for name in ControlFlowBuilder.__abstractmethods__:
        assert inspect.signature(getattr(ControlFlowTracer, name)) == inspect.signature(getattr(ControlFlowBuilder, name))


def test_a_nan_watch_inside_anomaly_mode_finds_the_op_in_a_loop():
    """The events of a NaN watch pass the observers in front of the tracer."""

    def f(x):
        with sg.debug.nans():
            return sg.scan(lambda c, _: (sg.log(c - 1), None), x, length=3)[0]

    with pytest.raises(FloatingPointError, match="log made a NaN"):
        sg.compile(f, backend="numpy")(sg.tensor(0.5))
    assert local.mode.capture is None
    assert isinstance(NanWatch(None, False).around(NullTracer()), NanWatch)
