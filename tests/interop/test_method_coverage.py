"""Every method and attribute of a tensor, and every function of ours, compiled at one input and called at another: right, or refused."""

from __future__ import annotations

import contextlib
import io
import warnings

import numpy as np
import pytest
from numpy_calls import FORMS, total

import symgrad as sg
from symgrad.tensor import Tensor

TEXTS = ("__repr__", "__str__", "__format__")
"""What is said of them, without numbers, is tested in test_escapes.py."""
PYTHONS = (
    "__class__", "__delattr__", "__dict__", "__dir__", "__getattribute__", "__hash__", "__init__", "__init_subclass__", "__new__",
    "__setattr__", "__sizeof__", "__subclasshook__", "__weakref__",
)  # fmt: skip
SETTINGS = {
    "compile", "derive", "elementwise", "empty_like", "from_jax", "initial_seed", "load", "load_compiled", "manual_seed", "save", "seed",
    "set_rng_state", "spec", "vmap", "set_default_dtype", "set_default_device", "set_num_threads", "set_printoptions", "set_grad_enabled",
}  # fmt: skip
MODULES = {"sg": sg, "sg.linalg": sg.linalg, "sg.special": sg.special, "sg.fft": sg.fft, "nn.functional": sg.nn.functional}


def methods():
    """`t.sin()`, `t.shape`: of a tensor that the function computes."""
    for name in dir(Tensor):
        if name in PYTHONS + TEXTS or (name.startswith("_") and not name.startswith("__")):
            continue
        if callable(getattr(Tensor, name)):
            yield name, lambda x, *others, name=name: getattr(x * 1, name)(*others)
        else:
            yield name, lambda x, *others, name=name: getattr(x * 1, name)


def functions():
    for title, module in MODULES.items():
        for name in dir(module):
            found = getattr(module, name)
            if not name.startswith("_") and callable(found) and not isinstance(found, type) and name not in SETTINGS:
                yield f"{title}.{name}", found


def quiet(run, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return run(*args)


def seeded(run, args):
    sg.manual_seed(0)
    return float(quiet(run, *(sg.from_numpy(a.copy()) for a in args)))


def number(program, args):
    """What eager code gives, or None if it takes no such arguments, or gives another number each time."""
    found = []
    for _ in range(2):
        try:
            found.append(seeded(program, args))
        except Exception:  # whatever it is: such a call is no program
            return None
    return found[0] if found[0] == found[1] and np.isfinite(found[0]) else None


def walk(items):
    """How many were right, and how many refused; every other one fails."""
    right = refused = 0
    for name, call in items:
        for form, (first, second) in FORMS.items():

            def program(*args, call=call):
                return total(args[0], call(*args))

            wanted = [number(program, args) for args in (first, second)]
            if None in wanted:
                continue
            fast = sg.compile(program, backend="numpy", returns="tensor")
            try:
                got = [seeded(fast, args) for args in (first, second)]
            except sg.errors.TraceError as error:
                refused += f"{__file__}:" in str(error)
                continue
            assert got == pytest.approx(wanted, rel=1e-6), f"{name}({form})"
            right += 1
    return right, refused


def test_methods():
    right, refused = walk(methods())
    assert right >= 700
    assert refused <= 30


def test_functions():
    right, refused = walk(functions())
    assert right >= 500
    assert refused <= 30


def test_a_second_argument_is_not_written_to():
    x, y = sg.ones(2), sg.tensor([5.0, 6.0])
    for name in ("isnan", "logical_not", "sin"):
        with pytest.raises(TypeError, match="positional argument"):
            getattr(x, name)(y)
    assert y.tolist() == [5, 6]
