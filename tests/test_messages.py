"""What messages say: classes as users know them, and what to do about a bad call."""

import ast
import math
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from public_calls import public_functions, public_methods

import symgrad as sg
from symgrad.device_tensor import tensor_from_storage

INTERNAL = re.compile(r"\b(SymbolicScalar|SymbolicInt|DeviceTensor|PooledTensor|DonatedPlaceholder|BufferSlice|PooledBuffer|PoolState|Exact"
    r"|ArrayBackend|TensorBackend|TracedStorage|Capture|Call|Leaf|ArrayImpl|RngInput|EffectsRunner|ProgramCache)\b")
PACKAGE = Path(sg.__file__).parent
FUNCTIONS = dict([*public_functions(), *public_methods()])


def names_a_type(node):
    """`type(x).__name__`, which is not what a user calls x: `x.__class__` is."""
    of = node.value if isinstance(node, ast.Attribute) and node.attr in ("__name__", "__qualname__") else node
    is_type = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "type" and len(of.args) == 1
    own = is_type and isinstance(of.args[0], ast.Name) and of.args[0].id == "self"
    return is_type and not own and (of is not node or isinstance(node, ast.Call))


def texts(tree):
    """The expressions inside of f-strings, and `type(...).__name__` anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Call):
            yield node.value
        if isinstance(node, ast.Attribute):
            yield node


def test_no_message_asks_type_for_a_name():
    found = []
    for path in [*PACKAGE.rglob("*.py"), *(PACKAGE / "compiler").resolve().rglob("*.py")]:
        for node in texts(ast.parse(path.read_text())):
            is_named = isinstance(node, ast.Call) or node.attr in ("__name__", "__qualname__")
            if is_named and names_a_type(node) and "self." not in ast.unparse(node):
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert not found


def message_of(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return f"{error} {getattr(error, '__notes__', '')}"
    return ""


def on_device(data):
    import jax

    return tensor_from_storage(jax.device_put(np.asarray(data)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_message_has_the_name_of_an_internal_class(name):
    f = FUNCTIONS[name]
    wrong = [lambda t: (t, t, "s", t, t, t, t), lambda t: (t, object()), lambda t: ("s", t), lambda t: ((t, t), t), lambda t: (t,) * 12]
    for args in wrong:
        for data in ([[True, False]], [[1.0, 2.0]]):
            text = message_of(lambda args=args, data=data: f(*args(on_device(data))))
            assert not INTERNAL.search(text), text
    for args in wrong[:2]:
        traced = sg.compile(lambda x, args=args: f(*args(x)), backend="numpy")
        assert not INTERNAL.search(text := message_of(lambda traced=traced: traced(1.5))), text


def test_a_bad_call_says_what_to_do():
    def f(x, y=None):
        return sg.sin(x)

    for call, text in (
        (lambda: sg.derive(f)((2, 3), (3,)), r"did you mean sg\.spec\(\(2, 3\)\)"),
        (lambda: sg.derive(f)((2, 3)), r"did you mean sg\.spec\(\(2, 3\)\)"),
        (lambda: sg.spec(2, 3), r"did you mean sg\.spec\(\(2, 3\)\)"),
        (lambda: sg.spec(2, 3, 4), r"did you mean sg\.spec\(\(2, 3, 4\)\)"),
        (lambda: math.sin(sg.ones(3)), r"use sg\.sin\(t\) in place of math\.sin\(t\)"),
        (lambda: sg.compile(lambda x: x * math.sin(x))(sg.tensor(1.0)), r"sg\.sin in place of math\.sin"),
        (lambda: sg.compile(lambda x: x.reluu())(sg.ones(3)), "did you mean 'relu'"),
        (lambda: sg.derive(lambda x: x.reluu())(sg.ones(3)), "did you mean 'relu'"),
    ):
        with pytest.raises(Exception, match=text):
            call()


def test_a_method_that_is_not_there_has_close_matches():
    """Python makes the suggestion where it prints the error: `Tensor.__getattr__` would make every attribute eight times slower."""
    code = "import symgrad as sg; sg.ones(3).reluu()"
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert "Did you mean: 'relu'?" in found.stderr
