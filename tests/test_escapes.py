"""What leaves to Python has a kind, by which tracers decide, and a text, which is only printed."""

from __future__ import annotations

import ast
import inspect
import pathlib

import pytest

import symgrad as sg
from symgrad import escapes
from symgrad.escapes import Escape, EscapeKind, PythonAction, Rebinding

ALL = {name: value for name, value in vars(escapes).items() if isinstance(value, Escape)}


@pytest.mark.parametrize("name", ALL)
def test_only_conditions_ask_for_a_number(name):
    assert (ALL[name].kind is EscapeKind.CONDITION) == (ALL[name].asks is not None)


@pytest.mark.parametrize("name", ALL)
def test_texts_are_a_name_and_an_instruction(name):
    """An error reads "<what> needs the values of ...; <instead>"."""
    verbs = {"call", "compute", "convert", "copy", "join", "save", "stack", "use", "write"}
    assert ALL[name].instead.split()[0] in verbs
    assert ALL[name].what.split()[0] not in verbs


def test_every_kind_is_used():
    assert {escape.kind for escape in ALL.values()} == set(EscapeKind)


@pytest.mark.parametrize("how", Rebinding)
def test_rebinding_is_refused_with_its_text(how):
    x = sg.ones(2, 1)

    def rebind(y):
        match how:
            case Rebinding.DATA:
                x.data = sg.ones(2, 1)
            case Rebinding.RESIZE:
                x.resize_(4)
            case Rebinding.T:
                x.t_()
            case Rebinding.TRANSPOSE:
                x.transpose_(0, 1)
            case Rebinding.SQUEEZE:
                x.squeeze_()
            case Rebinding.UNSQUEEZE:
                x.unsqueeze_(0)
        return x * y

    with pytest.raises(sg.errors.TraceError) as caught:
        sg.compile(rebind, backend="numpy")(sg.ones(1))
    assert f": {how.text} makes another tensor" in str(caught.value)
    assert how.instead in str(caught.value)


def test_texts_of_actions():
    assert PythonAction.MODULE_BACKWARD_HOOK.text("Linear") == "a full backward hook of Linear"
    assert PythonAction.SCHEDULER_STEP.text() == "scheduler.step()"
    assert len({action.text() for action in PythonAction}) == len(PythonAction)


TEXTS = {"what", "instead", "text", "value"}


def read_texts(node):
    """The texts of escapes, rebindings and actions that an expression reads."""
    return [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in TEXTS and isinstance(n.value, ast.Name)
            and n.value.id in ("escape", "how", "action")]


@pytest.mark.parametrize("module", ["symgrad", "symgrad/compiler/trace", "symgrad/compiler/guards", "symgrad/autograd"])
def test_no_text_is_compared(module):
    """Neither `escape.what == "..."` nor `"..." in how.text` nor `action.value.startswith(...)`."""
    root = pathlib.Path(inspect.getfile(sg)).parents[1]
    for file in (root / module).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare):
                assert not read_texts(node), f"{file}:{node.lineno}"
            if isinstance(node, ast.Attribute) and node.attr in ("startswith", "endswith", "partition", "split", "replace"):
                assert not read_texts(node.value), f"{file}:{node.lineno}"
