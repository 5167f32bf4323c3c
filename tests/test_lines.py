"""Warnings point at the user's line, however many functions of the library lie between it and the place that warns."""

import ast
import inspect
import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F
from symgrad.lines import user_line, warn

ROOT = Path(sg.__file__).parent


def scheduled():
    optimizer = sg.optim.SGD([sg.ones(1, requires_grad=True)], lr=0.1)
    return sg.optim.lr_scheduler.StepLR(optimizer, 1)


WARNING_CALLS = {
    "function": lambda: F.softmax(sg.ones(2, 3)),
    "deprecated function": lambda: sg.range(0, 3),
    "function in a function": lambda: F.dropout2d(sg.ones(2, 3, 4)),
    "module": lambda: sg.nn.Dropout2d()(sg.ones(2, 3, 4)),
    "constructor": lambda: sg.nn.RNN(2, 3, num_layers=1, dropout=0.5),
    "method": lambda: scheduled().step(),
    "method of a base class": lambda: scheduled().get_lr(),
    "broadcast loss": lambda: F.mse_loss(sg.ones(2), sg.ones(2, 2)),
    "init": lambda: sg.nn.init.kaiming_uniform_(sg.empty(0, 2)),
    "copy of a tensor": lambda: sg.tensor(sg.ones(1)),
    "read-only array": lambda: sg.from_numpy(np.broadcast_to(1.0, (2,))),
    "property": lambda: (sg.ones(1, requires_grad=True) * 1).grad,
    "context manager": lambda: sg.autograd.detect_anomaly(),
    "through map": lambda: list(map(F.softmax, [sg.ones(2, 3)])),
    "in a compiled function": lambda: sg.compile(lambda x: F.softmax(x), backend="numpy")(sg.ones(2, 3)),
    "setting": lambda: sg.set_float32_matmul_precision("low"),
    "split": lambda: sg.utils.data.random_split(range(3), [1.0, 0.0]),
}


@pytest.mark.parametrize("name", WARNING_CALLS)
def test_warnings_point_at_the_users_line(name):
    call = WARNING_CALLS[name]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert found
    lines, first = inspect.getsourcelines(call)
    here = [(Path(w.filename).name, w.lineno in range(first, first + len(lines))) for w in found]
    helper = inspect.getsourcelines(scheduled)
    assert all(file == Path(__file__).name for file, _ in here)
    assert all(inside or w.lineno in range(helper[1], helper[1] + len(helper[0])) for (_, inside), w in zip(here, found, strict=True))


def test_the_line_of_the_caller():
    assert user_line() == f"{__file__}:{inspect.currentframe().f_lineno}"
    with pytest.warns(FutureWarning, match="soon") as found:
        warn("soon", FutureWarning)
    assert [(w.filename, w.lineno) for w in found] == [(__file__, inspect.currentframe().f_lineno - 1)]


def test_the_library_warns_in_one_way():
    """Stack levels by hand are wrong as soon as a function is wrapped."""
    files = (p for p in itertools.chain(ROOT.rglob("*.py"), (ROOT / "compiler").resolve().rglob("*.py")) if p != ROOT / "lines.py")
    calls = ((p, node) for p in files for node in ast.walk(ast.parse(p.read_text())) if isinstance(node, ast.Call))
    assert not [f"{p}:{node.lineno}" for p, node in calls if ast.unparse(node.func) == "warnings.warn"]
