"""NumPy arrays that a function closes over: inputs where they are operands of ops, guarded where Python also reads their numbers."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.guards.array_uses import operand_sites

numbers = np.ones(2, np.float32)
matrices = [np.ones((2, 2), np.float32)]
table = {"w": matrices[0], "b": numbers}


class Holder:
    def __init__(self):
        self.numbers = numbers


holder = Holder()


def helper(x, b):
    return x * b


def outer_helper(x, b):
    return helper(x, b) + 1


def reading_helper(x, b):
    return x * b * float(b[0])


def over_list(x):
    for w in matrices:
        x = x @ w
    return x


def over_list_and_read(x):
    for w in matrices:
        x = x @ w * w[0, 0]
    return x


def through_variable(x):
    b = numbers
    return x * b


def through_variable_and_read(x):
    b = numbers
    return x * b * b[0]


def in_closure():
    def inner(x):
        return x * numbers

    return inner


OPERANDS = {
    "x * a": lambda x: x * numbers, "a * x": lambda x: numbers * x, "twice": lambda x: x * numbers + x * numbers,
    "sg.dot": lambda x: sg.dot(x, numbers), "np.dot": lambda x: np.dot(x, numbers), "np.add": lambda x: np.add(x, numbers),
    "where": lambda x: sg.where(x > 1, x, numbers), "matmul": lambda x: x.matmul(matrices[0]), "a slice": lambda x: x * numbers[:2],
    "a row": lambda x: x * matrices[0][0], "a.T": lambda x: x @ matrices[0].T, "reshape": lambda x: x @ matrices[0].reshape(2, 2),
    "a.shape": lambda x: x * numbers * numbers.shape[0], "a dict": lambda x: x @ table["w"] + table["b"], "a loop": over_list,
    "a comprehension": lambda x: sum([x @ w for w in matrices]), "an attribute": lambda x: x * holder.numbers,
    "a helper": lambda x: helper(x, numbers), "helpers": lambda x: outer_helper(x, numbers), "a variable": through_variable,
    "a closure": in_closure(),
}  # fmt: skip
READ = {
    "float": lambda x: x * numbers * float(numbers[0]), "int": lambda x: x * numbers * int(numbers[0]),
    "item": lambda x: x * numbers * numbers[0].item(), "tolist": lambda x: x * numbers * numbers.tolist()[0],
    "bool": lambda x: x * numbers if numbers[0] > 2 else x * numbers * 3, "any": lambda x: x * numbers * (numbers > 2).any(),
    "index": lambda x: x * numbers * numbers[0], "index before": lambda x: numbers[0] * (x * numbers),
    "as an index": lambda x: x * numbers * [0, 1, 2, 3, 4, 5][int(numbers[0])], "len": lambda x: x * numbers * len(numbers[numbers > 2]),
    "sum": lambda x: x * numbers * sum(numbers), "unpacked": lambda x: x * numbers * max(*numbers),
    "list": lambda x: x * numbers * sorted(numbers)[-1],
    "iteration": lambda x: x * numbers * math.prod(v for v in numbers), "text": lambda x: x * numbers * float(f"{numbers[0]}"),
    "np.max": lambda x: x * numbers * np.max(numbers), "np.dot": lambda x: x * numbers * np.dot(numbers, numbers),
    "a.sum": lambda x: x * numbers * numbers.sum(), "a method of a dict's": lambda x: x * table["b"] * table["b"].max(),
    "a * a": lambda x: x * numbers * (numbers * numbers), "-a": lambda x: x * numbers * -numbers,
    "copy": lambda x: x * numbers * numbers.copy(),
    "astype": lambda x: x * numbers * numbers.astype(np.float64), "a mask": lambda x: sg.where(sg.tensor(numbers > 2), 7 * x, x * numbers),
    "an option": lambda x: sg.add(x, numbers, alpha=float(numbers[0])), "which": lambda x: x * (numbers if numbers[0] > 2 else 2),
    "a slice": lambda x: x * numbers[:1] * float(numbers[0]), "as_tensor": lambda x: x * sg.as_tensor(numbers) * float(numbers[0]),
    "an attribute": lambda x: x * holder.numbers * holder.numbers[0], "vars": lambda x: x * numbers * vars(holder)["numbers"][0],
    "a helper": lambda x: reading_helper(x, numbers), "a lambda": lambda x: (lambda b: x * b * b[0])(numbers),
    "a loop": over_list_and_read, "a variable": through_variable_and_read,
    "a memoryview": lambda x: x * numbers * memoryview(numbers)[0], "bytes": lambda x: x * numbers * numbers.tobytes()[3],
}  # fmt: skip


@pytest.fixture(autouse=True)
def ones():
    numbers[:], matrices[0][:] = 1, 1


def change():
    numbers[0], matrices[0][0, 0] = 5, 5


def calls(f):
    """The results of compiled code and of eager code after the arrays have changed, and the number of traces."""
    fast, x = sg.compile(f, backend="numpy"), sg.tensor([1.0, 2.0])
    fast(x), fast(x)
    before = f(x).tolist()
    change()
    found, expected = fast(x).tolist(), f(x).tolist()
    assert before != expected
    return found, expected, len(fast.recompiles())


@pytest.mark.parametrize("name", OPERANDS)
def test_an_array_that_is_an_operand_is_an_input(name):
    found, expected, traces = calls(OPERANDS[name])
    assert found == expected
    assert traces == 1


@pytest.mark.parametrize("name", READ)
def test_an_array_that_is_also_read_is_guarded(name):
    found, expected, traces = calls(READ[name])
    assert found == expected
    assert traces == 2


@pytest.mark.parametrize("name", ["float", "np.max", "a * a", "a helper"])
def test_derivatives_after_a_change(name):
    f, x = READ[name], sg.tensor([1.0, 2.0])
    fast = sg.compile(lambda x: f(x).sum(), backend="numpy")
    fast.grad(x, wrt=0)
    change()
    leaf = x.clone().requires_grad_()
    f(leaf).sum().backward()
    assert fast.grad(x, wrt=0).tolist() == leaf.grad.tolist()


def test_a_large_array_that_is_also_read_is_a_warning():
    large = np.ones(20_000, np.float32)
    with pytest.warns(UserWarning, match="closure cell large is a NumPy array of 80000 bytes that is read when the function is traced"):
        sg.compile(lambda x: (x * large).sum() * float(large[0]), backend="numpy")(sg.ones(20_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.compile(lambda x: helper(x, large).sum(), backend="numpy")(sg.ones(20_000))


def test_sites_lead_to_callers_while_these_hand_the_array_on():
    def use(array):
        return operand_sites(numbers)

    def captured(other):
        return operand_sites(numbers)

    def caller(function, *args):
        held = numbers
        return function(*args), held

    handed_on, _ = caller(use, numbers)
    alone, _ = caller(captured, 3)
    assert {(use.__code__, "array"), (caller.__code__, "held")} <= handed_on
    assert {code for code, _ in alone} == {captured.__code__}
