"""Changes of long lists and dictionaries, buffers and object arrays are seen at the next call, or a warning says that they are not."""

import array
import collections
import types
import warnings

import numpy as np
import pytest

import symgrad as sg


class Options:
    def __init__(self):
        self.rate = 1.0


def put(container, key):
    return lambda: container.__setitem__(key, 5.0)


def long_list():
    many = [1.0] * 65
    return (lambda x: x * many[64]), put(many, 64)


def longest_list_followed():
    many = [1.0] * 1024
    return (lambda x: x * many[1023]), put(many, 1023)


def long_list_of_lists():
    many = [[1.0] for _ in range(65)]
    return (lambda x: x * many[64][0]), put(many[64], 0)


def long_list_of_arrays():
    many = [np.ones(1) for _ in range(65)]
    return (lambda x: x * float(many[64][0])), put(many[64], 0)


def long_list_of_objects():
    many = [Options() for _ in range(65)]
    return (lambda x: x * many[64].rate), lambda: setattr(many[64], "rate", 5.0)


def long_dict():
    many = {str(i): 1.0 for i in range(65)}
    return (lambda x: x * many["64"]), put(many, "64")


def long_deque():
    many = collections.deque([1.0] * 65)
    return (lambda x: x * many[64]), put(many, 64)


def long_array():
    many = array.array("d", [1.0] * 65)
    return (lambda x: x * many[64]), put(many, 64)


def bytes_of():
    many = bytearray(b"\1" * 65)
    return (lambda x: x * many[64]), lambda: many.__setitem__(64, 5)


def view_of_memory():
    many = memoryview(array.array("d", [1.0] * 3))
    return (lambda x: x * many[2]), put(many, 2)


def chain_map():
    below = {"rate": 1.0}
    many = collections.ChainMap({}, below)
    return (lambda x: x * many["rate"]), put(below, "rate")


def mapping_proxy():
    below = {"rate": 1.0}
    many = types.MappingProxyType(below)
    return (lambda x: x * many["rate"]), put(below, "rate")


def user_dict():
    many = collections.UserDict(rate=1.0)
    return (lambda x: x * many["rate"]), put(many, "rate")


def user_list():
    many = collections.UserList([1.0])
    return (lambda x: x * many[0]), put(many, 0)


def object_array():
    many = np.array([[1.0, None], ["a", 2]], object)
    return (lambda x: x * many[0, 0]), put(many, (0, 0))


FOLLOWED = [
    long_list, longest_list_followed, long_list_of_lists, long_list_of_arrays, long_list_of_objects, long_dict, long_deque, long_array,
    bytes_of, view_of_memory, chain_map, mapping_proxy, user_dict, user_list, object_array,
]  # fmt: skip


@pytest.mark.parametrize("case", FOLLOWED)
def test_a_change_is_seen_at_the_next_call(case):
    f, change = case()
    fast, x = sg.compile(f, backend="numpy"), sg.tensor([2.0])
    assert fast(x).tolist() == fast(x).tolist() == f(x).tolist() == [2.0]
    assert len(fast.recompiles()) == 1
    change()
    assert fast(x).tolist() == f(x).tolist() == [10.0]


def too_long_list():
    many = [1.0] * 1025
    return lambda x: x * many[1024]


def longest_list():
    many = [1.0] * 20_000
    return lambda x: x * many[1024]


def too_long_dict():
    many = dict.fromkeys(range(1025), 1.0)
    return lambda x: x * many[1024]


def too_many_lists():
    many = [[1.0] * 65 for _ in range(65)]
    return lambda x: x * many[64][0]


def large_object_array():
    many = np.full(1025, 1.0, object)
    return lambda x: x * many[1024]


def large_buffer():
    many = bytearray(b"\1" * 100_000)
    return lambda x: x * many[64]


@pytest.mark.parametrize("case", [too_long_list, longest_list, too_long_dict, too_many_lists, large_object_array, large_buffer])
def test_what_is_too_large_to_compare_is_a_warning_with_its_name(case):
    fast = sg.compile(case(), backend="numpy")
    with pytest.warns(UserWarning, match="closure cell many is .*changes are not seen") as caught:
        assert fast(sg.tensor([2.0])).tolist() == [2.0]
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fast(sg.tensor([3.0])).tolist() == [3.0]


def test_a_long_log_is_no_warning():
    log = [1.0] * 2000

    def f(x):
        log.append(1.0)
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sg.compile(f, backend="numpy")(sg.ones(1)).tolist() == [2.0]
