"""Python state that a compiled function reads: after a change the next call is as eager code has it. What is not followed is listed."""

from __future__ import annotations

import array
import collections
import contextvars
import copy
import ctypes
import dataclasses
import enum
import functools
import itertools
import math
import os
import random
import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Options:
    rate: float = 1.0


class Holder:
    def __init__(self):
        self.rate, self.many, self.some, self.numbers = 1.0, [1], {1}, np.ones(2)

    def scaled(self, x):
        return x * self.rate

    @property
    def double(self):
        return 2 * self.rate


class Operand:
    """Its special methods read an attribute that no other code names."""

    shared = 1.0

    def __init__(self):
        self.strength = 1.0

    def __call__(self, x):
        return x * self.strength

    def __getitem__(self, i):
        return self.strength + i

    def __matmul__(self, x):
        return x * self.strength

    __mul__ = __add__ = __rmul__ = __matmul__

    def __float__(self):
        return self.strength

    def __len__(self):
        return int(self.strength)

    def __iter__(self):
        return iter([self.strength])

    def __contains__(self, value):
        return value == self.strength

    def __enter__(self):
        return self.strength

    def __exit__(self, *_):
        pass

    def forward(self, x):
        return x * self.strength

    @classmethod
    def by_class(cls, x):
        return x * cls.shared


class Derived(Operand):
    def forward(self, x):
        return super().forward(x)


def entered(x, operand):
    with operand as strength:
        return x * strength


strengthen = lambda v: setattr(v, "strength", 5.0)


def operand(use):
    return within(Derived(), strengthen, use)


def bound_by_name():
    o = Operand()
    forward = o.forward
    return lambda x: forward(x), lambda: strengthen(o)


def partial_by_name():
    options = Options()
    scaled = functools.partial(lambda o, x: x * o.rate, options)
    return lambda x: scaled(x), lambda: setattr(options, "rate", 5.0)


def partial_of_an_object():
    options = Options()
    return functools.partial(lambda o, x: x * o.rate, options), lambda: setattr(options, "rate", 5.0)


def builtin_method_by_name():
    rates = [1.0]
    rate = rates.__getitem__
    return lambda x: x * rate(0), lambda: rates.__setitem__(0, 5.0)


def function_attribute():
    def f(x):
        return x * f.rate

    f.rate = 1.0
    return lambda x: f(x), lambda: setattr(f, "rate", 5.0)


def function_in_a_list():
    rate = 1.0

    def change():
        nonlocal rate
        rate = 5.0

    functions = [lambda x: x * rate]
    return lambda x: functions[0](x), change


def made_inside():
    start = Options()

    class Made:
        def __init__(self):
            self.size = start.rate

    return lambda x: x * Made().size, lambda: setattr(start, "rate", 5.0)


def class_attribute():
    class Own(Operand):
        pass

    own = Own()
    return lambda x: own.by_class(x), lambda: setattr(Own, "shared", 5.0)


def replaced_special_method():
    class Own(Operand):
        def __call__(self, x):
            return x * 2

    own = Own()
    return lambda x: own(x), lambda: setattr(Own, "__call__", lambda self, x: x * 7)


RATE = 1.0


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int))


def context_variable():
    rate = contextvars.ContextVar("rate", default=1.0)
    return lambda x: x * rate.get(), lambda: rate.set(5.0)


def list_in_a_context_variable():
    rate = contextvars.ContextVar("rate")
    rate.set([1.0])
    return lambda x: x * rate.get()[0], lambda: rate.get().__setitem__(0, 5.0)


def thread_local():
    local = threading.local()
    local.rate = 1.0
    return lambda x: x * local.rate, lambda: setattr(local, "rate", 5.0)


def by_globals(read):
    def make():
        globals()["RATE"] = 1.0
        return lambda x: x * read(), lambda: globals().update(RATE=5.0)

    return make


def by_environment(read):
    def make():
        os.environ.pop("SYMGRAD_TEST-RATE", None)
        os.environ["SYMGRAD_TEST-RATE"] = "1"
        return lambda x: x * read(), lambda: os.environ.update({"SYMGRAD_TEST-RATE": "5"})

    return make


def cell(before, after, use):
    """A closure cell that gets another value."""

    def make():
        value = before

        def change():
            nonlocal value
            value = after

        return lambda x: use(x, value), change

    return make


def within(before, change, use):
    """An object that is changed in place."""

    def make():
        value = copy.copy(before) if isinstance(before, ctypes.Structure.__mro__[1]) else copy.deepcopy(before)
        return lambda x: use(x, value), lambda: change(value)

    return make


def put(key, item):
    return lambda value: value.__setitem__(key, item)


def bind(name, item):
    return lambda value: setattr(value, name, item)


def by_type(x, value):
    return x * {bool: 2, int: 3, float: 5}[type(value)]


def partial():
    rates = [1.0]
    return functools.partial(lambda x, k: x * k[0], k=rates), lambda: rates.__setitem__(0, 5.0)


def default():
    rates = [1.0]

    def f(x, k=rates):
        return x * k[0]

    return f, lambda: rates.__setitem__(0, 5.0)


def replaced_forward():
    net = nn.Sequential(nn.ReLU())
    return net, lambda: setattr(net[0], "forward", lambda x: x * 7)


def replaced_forward_of_a_class():
    class Net(nn.Module):
        def forward(self, x):
            return x * 2

    return Net(), lambda: setattr(Net, "forward", lambda self, x: x * 7)


def replaced_method():
    class Own:
        def scaled(self, x):
            return x * 2

    own = Own()
    return lambda x: own.scaled(x), lambda: setattr(Own, "scaled", lambda self, x: x * 7)


def bound_method():
    holder = Holder()
    return holder.scaled, lambda: setattr(holder, "rate", 5.0)


FOLLOWED = {
    "0.0 and -0.0": cell(0.0, -0.0, lambda x, v: x / v),
    "complex -0.0": cell(0j, complex(0, -0.0), lambda x, v: x * math.copysign(1, v.imag)),
    "1.0 and NaN": cell(1.0, math.nan, lambda x, v: x * v), "NaN and 1.0": cell(math.nan, 1.0, lambda x, v: x * v),
    "1 and True": cell(1, True, by_type), "1 and 1.0": cell(1, 1.0, by_type), "True and 1.0": cell(True, 1.0, by_type),
    "a tuple with -0.0": cell((0.0,), (-0.0,), lambda x, v: x / v[0]), "an enum": cell(Color.RED, Color.BLUE, lambda x, v: x * v.value),
    "a frozenset": cell(frozenset({1}), frozenset({2}), lambda x, v: x * sum(v)), "bytes": cell(b"a", b"ab", lambda x, v: x * len(v)),
    "a list": within([1], put(0, 5), lambda x, v: x * v[0]), "a list with -0.0": within([0.0], put(0, -0.0), lambda x, v: x / v[0]),
    "a list with True": within([1], put(0, True), lambda x, v: by_type(x, v[0])),
    "a set": within({1}, lambda v: v.add(5), lambda x, v: x * sum(v)),
    "membership": within({1}, lambda v: v.add(5), lambda x, v: x * (2 if 5 in v else 3)),
    "a list of sets": within([{1}], lambda v: v[0].add(5), lambda x, v: x * sum(v[0])),
    "a list in a tuple": within(([1],), lambda v: v[0].append(5), lambda x, v: x * sum(v[0])),
    "a dict": within({"a": 1}, put("a", 5), lambda x, v: x * v["a"]),
    "the order of a dict": within({"a": 1, "b": 2}, lambda v: v.update(a=v.pop("a")), lambda x, v: x * next(iter(v.values()))),
    "a Counter": within(collections.Counter(a=1), put("a", 5), lambda x, v: x * v["a"]),
    "a deque": within(collections.deque([1]), lambda v: v.append(5), lambda x, v: x * sum(v)),
    "a bytearray": within(bytearray(b"a"), lambda v: v.extend(b"bb"), lambda x, v: x * len(v)),
    "an array.array": within(array.array("d", [1.0]), put(0, 5.0), lambda x, v: x * v[0]),
    "float(array[0])": within(np.ones(2), put(0, 5), lambda x, v: x * float(v[0])),
    "array[0]": within(np.ones(2), put(0, 5), lambda x, v: x * v[0]),
    "if array[0]": within(np.ones(2), put(0, 5), lambda x, v: x if v[0] > 2 else x * 3),
    "array.sum()": within(np.ones(2), put(0, 5), lambda x, v: x * v.sum()),
    "x * array": within(np.ones(2, np.float32), put(0, 5), lambda x, v: x * v),
    "tensor(array)": within(np.ones(2, np.float32), put(0, 5), lambda x, v: x * sg.tensor(v)),
    "an array without dimensions": within(np.array(1.0), lambda v: v.fill(5), lambda x, v: x * float(v)),
    "arrays in a dict": within({"a": np.ones(2)}, lambda v: v["a"].fill(5), lambda x, v: x * float(v["a"][0])),
    "a dataclass": within(Options(), bind("rate", 5.0), lambda x, v: x * v.rate),
    "an attribute": within(Holder(), bind("rate", 5.0), lambda x, v: x * v.rate),
    "an attribute with -0.0": within(Options(0.0), bind("rate", -0.0), lambda x, v: x / v.rate),
    "a list in an attribute": within(Holder(), lambda v: v.many.append(5), lambda x, v: x * sum(v.many)),
    "a set in an attribute": within(Holder(), lambda v: v.some.add(5), lambda x, v: x * sum(v.some)),
    "an array in an attribute": within(Holder(), lambda v: v.numbers.fill(5), lambda x, v: x * float(v.numbers[0])),
    "a property": within(Holder(), bind("rate", 5.0), lambda x, v: x * v.double),
    "getattr": within(Holder(), bind("rate", 5.0), lambda x, v: x * getattr(v, "rate", 0)),
    "vars": within(Holder(), bind("rate", 5.0), lambda x, v: x * vars(v)["rate"]), "a bound method": bound_method, "a partial": partial,
    "a default argument": default, "forward of a module": replaced_forward, "forward of a class": replaced_forward_of_a_class,
    "a method of a class": replaced_method,
    "an object in a list": within([Options()], lambda v: setattr(v[0], "rate", 5.0), lambda x, v: x * v[0].rate),
    "an object in a tuple": within((Options(),), lambda v: setattr(v[0], "rate", 5.0), lambda x, v: x * v[0].rate),
    "an object in a dict": within({"a b": [Options()]}, lambda v: setattr(v["a b"][0], "rate", 5.0), lambda x, v: x * v["a b"][0].rate),
    "an object in a list in an attribute": within(Options([Operand()]), lambda v: strengthen(v.rate[0]), lambda x, v: v.rate[0](x)),
    "a function in a list": function_in_a_list, "__call__": operand(lambda x, v: v(x)), "__getitem__": operand(lambda x, v: x * v[0]),
    "__mul__": operand(lambda x, v: v * x), "__matmul__": operand(lambda x, v: v @ x), "__add__": operand(lambda x, v: v + x),
    "__float__": operand(lambda x, v: x * float(v)), "__len__": operand(lambda x, v: x * len(v)),
    "__iter__": operand(lambda x, v: x * sum(v)), "__contains__": operand(lambda x, v: x * (2 if 5.0 in v else 3)),
    "__enter__": operand(entered), "super()": operand(lambda x, v: v.forward(x)), "a class method": class_attribute,
    "a bound method by name": bound_by_name, "a partial by name": partial_by_name, "an object in a partial": partial_of_an_object,
    "a method of a list by name": builtin_method_by_name, "an attribute of a function": function_attribute,
    "a context variable": context_variable, "a list in a context variable": list_in_a_context_variable,
    "globals()": by_globals(lambda: globals()["RATE"]), "globals().get()": by_globals(lambda: globals().get("RATE", 0)),
    "os.environ": by_environment(lambda: float(os.environ["SYMGRAD_TEST-RATE"])),
    "os.getenv": by_environment(lambda: float(os.getenv("SYMGRAD_TEST-RATE", "1"))),
    "a number of ctypes": within(ctypes.c_double(1), bind("value", 5.0), lambda x, v: x * v.value),
    "an array of ctypes": within((ctypes.c_int * 2)(1, 1), put(0, 5), lambda x, v: x * v[0]),
    "a structure of ctypes": within(Point(1, 1), bind("x", 5), lambda x, v: x * v.x),
    "a thread's own attribute": thread_local, "a rebound list": within(Holder(), bind("many", [5]), lambda x, v: x * v.many[0]),
    "what __init__ reads": made_inside, "a special method of a class": replaced_special_method,
}  # fmt: skip


def values(t):
    return t.detach().numpy()


@pytest.mark.parametrize("name", FOLLOWED)
def test_followed(name):
    f, change = FOLLOWED[name]()
    x, fast = sg.tensor([1.0, 2.0]), sg.compile(f, backend="numpy")
    fast(x)
    np.testing.assert_array_equal(values(fast(x)), values(f(x)))
    before = values(f(x))
    change()
    after, found = values(f(x)), values(fast(x))
    assert not np.array_equal(before, after)  # the change can be seen
    np.testing.assert_array_equal(found, after)
    assert len(fast.recompiles()) <= 2


def test_what_a_dataclass_generates_does_not_count():
    @dataclasses.dataclass
    class Progress:
        rate: float = 1.0
        calls: int = 0

    progress = Progress()
    fast = sg.compile(lambda x: x * progress.rate, backend="numpy")
    for _ in range(3):
        progress.calls += 1
        fast(sg.ones(2))
    assert len(fast.recompiles()) == 1


def test_a_list_that_holds_its_own_method_is_searched_once():
    many = [2.0]
    many.append(many.index)
    fast = sg.compile(lambda x: x * many[0], backend="numpy")
    assert fast(sg.ones(1)).tolist() == [2]


def counted(state, advance):
    """A function that changes state which its results depend on."""
    return lambda x: x * advance(state)


def advance_function():
    def f(x):
        f.calls += 1
        return x * f.calls

    f.calls = 1
    return f


def put_next(d):
    d["n"] += 1
    return d["n"]


def append_one(many):
    many.append(1)
    return len(many)


def add_one(some):
    some.add(len(some))
    return len(some)


CHANGED_INSIDE = {
    "a dict": counted({"n": 1}, put_next), "a dict in a list": counted([{"n": 1}], lambda v: put_next(v[0])),
    "a list": counted([1], append_one), "a long list": counted([1] * 100, append_one),
    "a deque": counted(collections.deque([1]), append_one), "a set": counted({0}, add_one),
    "a list in an attribute": counted(Holder(), lambda v: append_one(v.many)),
    "a function's attribute": advance_function(),
    "itertools.count": counted(itertools.count(2), next), "itertools.cycle": counted(itertools.cycle([2, 3]), next),
    "a generator": counted((i for i in range(2, 9)), next),
    "an iterator in a dict": counted({"it": iter([2, 3, 4])}, lambda v: next(v["it"])),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED_INSIDE)
def test_state_that_the_function_itself_changes_is_a_warning(name):
    f = CHANGED_INSIDE[name]
    fast, x = sg.compile(f, backend="numpy"), sg.tensor([1.0])
    with pytest.warns(UserWarning, match="while the function is traced|is an iterator") as caught:
        first = fast(x)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert fast(x).tolist() == first.tolist()
    assert f(x).tolist() != first.tolist()
    with pytest.warns(UserWarning, match="while the function is traced|is an iterator"):
        sg.compile(lambda x: f(x).sum(), backend="numpy").grad(x, wrt=0)


def test_a_list_that_is_only_appended_to_decides_nothing():
    log = []

    def f(x):
        log.append(1)
        return x * 2

    fast = sg.compile(f, backend="numpy")
    fast(sg.ones(1))
    log.append(2)
    fast(sg.ones(1))
    assert log == [1, 2]
    assert len(fast.recompiles()) == 1


def test_a_function_that_keeps_tensors_runs_as_it_is_written_and_counts():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x * len(kept)

    fast = sg.compile(f, backend="numpy")
    assert [fast(sg.ones(1)).item() for _ in range(3)] == [1, 2, 3]


def drawing(make, draw):
    def function():
        generator = make()
        return lambda x: x * draw(generator)

    return function


def drawing_by_method(make, name):
    def function():
        method = getattr(make(), name)
        return lambda x: x * method()

    return function


def seeded():
    return np.random.default_rng(0)


DRAWS = {
    "Generator": drawing(seeded, lambda g: g.normal()),
    "MT19937": drawing(lambda: np.random.Generator(np.random.MT19937(0)), lambda g: g.normal()),
    "BitGenerator": drawing(lambda: np.random.PCG64(0), lambda g: int(g.random_raw() % 100)),
    "RandomState": drawing(lambda: np.random.RandomState(0), lambda g: g.rand()),
    "Random": drawing(lambda: random.Random(0), lambda g: g.random()),
    "in a dict": drawing(lambda: {"g": [seeded()]}, lambda v: v["g"][0].normal()),
    "in a tuple": drawing(lambda: (seeded(),), lambda v: v[0].normal()),
    "in an attribute": drawing(lambda: Options(seeded()), lambda v: v.rate.normal()),
    "a method of Generator": drawing_by_method(seeded, "normal"),
    "a method of Random": drawing_by_method(lambda: random.Random(0), "random"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_of_the_users_that_is_drawn_from_is_refused(name):
    f, as_new, x = DRAWS[name](), DRAWS[name](), sg.ones(1)
    fast = sg.compile(f, backend="numpy")
    for call in (fast, lambda x: fast.grad(x, wrt=0)):
        with pytest.raises(sg.errors.TraceError, match=r"test_python_state.py:\d+: the function draws from (closure cell|generator.rate)"):
            call(x)
    assert f(x).item() == as_new(x).item()  # a refused call leaves the generator as it was


def test_a_generator_that_is_an_argument_is_refused_and_one_that_is_not_drawn_from_is_not():
    generator = np.random.default_rng(0)
    with pytest.raises(sg.errors.TraceError, match="the function draws from g "):
        sg.compile(lambda x, g: x * g.normal(), backend="numpy")(sg.ones(1), generator)
    fast = sg.compile(lambda x: x * (2 if generator is not None else 3), backend="numpy")
    generator.normal()
    assert [fast(sg.ones(1)).item() for _ in range(2)] == [2, 2]
    assert len(fast.recompiles()) == 1


def test_a_large_array_is_a_warning_unless_it_is_an_input():
    numbers, limit = np.ones(8193), np.ones(8192)
    fast = sg.compile(lambda x: x * float(numbers.sum()), backend="numpy")
    with pytest.warns(UserWarning, match="closure cell numbers is a NumPy array of 65544 bytes.*sg.from_numpy") as caught:
        fast(sg.ones(1))
    assert len(caught) == 1
    assert sg.compile(lambda x: x * numbers.shape[0], backend="numpy")(sg.ones(1)).item() == 8193
    as_input = sg.compile(lambda x: (x * numbers).sum(), backend="numpy")
    guarded = sg.compile(lambda x: x * float(limit.sum()), backend="numpy")
    for k in (1.0, 2.0):
        numbers[:] = limit[:] = k
        assert as_input(sg.ones(8193, dtype=sg.float64)).item() == 8193 * k
        assert guarded(sg.ones(1)).item() == 8192 * k
    assert len(as_input.recompiles()) == 1


def test_an_array_that_is_an_input_is_not_traced_again():
    numbers = np.ones(2, np.float32)
    fast = sg.compile(lambda x: x * numbers, backend="numpy")
    for k in range(3):
        numbers[0] = k
        assert fast(sg.ones(2)).tolist() == [k, 1]
    assert len(fast.recompiles()) == 1


def test_not_followed(tmp_path):
    """Files are read while a function is traced, and not again: docs/tracing.md says so."""
    file = tmp_path / "rate"
    file.write_text("1", encoding="utf-8")
    fast = sg.compile(lambda x: x * float(file.read_text(encoding="utf-8")), backend="numpy")
    fast(sg.ones(2))
    file.write_text("5", encoding="utf-8")
    assert fast(sg.ones(2)).tolist() == [1, 1]


class Rebinding:
    def __init__(self, value):
        self.value = value

    def renewed(self, x, renew, number):
        self.value = renew(self.value)
        return x * number(self.value)

    def in_two_methods(self, x, renew, number):
        self.renew(renew)
        return x * number(self.value)

    def renew(self, renew):
        self.value = renew(self.value)

    def in_a_branch(self, x, renew, number):
        if x.ndim > 5:
            self.value = None
        before = number(self.value)
        self.value = renew(self.value)
        return x * before

    def overwritten(self, x, renew, number):
        self.value = renew(self.value) if x.ndim > 5 else [x.shape[0]]
        for _ in range(2):
            self.value = [len(self.value)]
        return x * 2

    def logged(self, x, renew, number):
        self.value.append(1)
        return x * 2

    def built_anew(self, x, renew, number):
        self.value = []
        for _ in range(2):
            self.value += [1]
        return x * len(self.value)


class RebindingModule(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    renewed, in_two_methods, renew = Rebinding.renewed, Rebinding.in_two_methods, Rebinding.renew

    def forward(self, x, renew, number):
        return self.renewed(x, renew, number)


REBOUND = {
    "a number": (1, lambda v: v + 1, lambda v: v),
    "a tuple": ((1,), lambda v: (v[0] + 1,), lambda v: v[0]),
    "a list": ([], lambda v: [*v, 1], len),
    "a dict": ({"k": 1}, lambda v: {"k": v["k"] + 1}, lambda v: v["k"]),
    "a frozenset": (frozenset((1,)), lambda v: frozenset((max(v) + 1,)), max),
    "a list in a tuple": (([1],), lambda v: ([v[0][0] + 1],), lambda v: v[0][0]),
    "an array": (np.ones(1), lambda v: v + 1, lambda v: float(v[0])),
    "an object": (Options(1), lambda v: Options(v.rate + 1), lambda v: v.rate),
}


@pytest.mark.parametrize("way", ["renewed", "in_two_methods", "in_a_branch", "module", "a module's method"])
@pytest.mark.parametrize("name", REBOUND)
def test_an_attribute_that_the_function_reads_and_rebinds_is_a_warning(name, way):
    value, renew, number = REBOUND[name]
    module = RebindingModule(value) if "module" in way else None
    owner = module or Rebinding(value)
    method = module if way == "module" else module.renewed if module is not None else getattr(owner, way)
    fast = sg.compile(lambda x: method(x, renew, number), backend="numpy")
    with pytest.warns(UserWarning, match="value is changed while the function is traced") as caught:
        fast(sg.ones(1))
    assert len(caught) == 1


@pytest.mark.parametrize("way", ["overwritten", "logged", "built_anew"])
def test_an_attribute_that_is_not_read_before_it_is_bound_is_no_warning(way):
    fast = sg.compile(getattr(Rebinding([1]), way), backend="numpy")
    assert [fast(sg.ones(3), list, len).tolist() for _ in range(2)] == [[2, 2, 2]] * 2


def test_an_attribute_that_is_added_to_is_a_warning():
    class Adding:
        value = (1,)

        def __call__(self, x):
            self.value += (1,)
            return x * len(self.value)

    with pytest.warns(UserWarning, match="value is changed while the function is traced"):
        sg.compile(Adding(), backend="numpy")(sg.ones(1))


def test_an_attribute_that_is_rebound_to_an_equal_value_is_followed():
    holder = Rebinding([2.0])
    fast = sg.compile(lambda x: holder.renewed(x, list, lambda v: v[0]), backend="numpy")
    assert [fast(sg.ones(1)).item() for _ in range(2)] == [2, 2]
    assert len(fast.recompiles()) == 1
    holder.value = [5.0]
    assert [fast(sg.ones(1)).item() for _ in range(2)] == [5, 5]
    holder.value[0] = 7.0
    assert fast(sg.ones(1)).item() == 7
