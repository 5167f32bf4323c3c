"""Recording on and off: blocks, decorators, generators, threads."""

from __future__ import annotations

import threading

import pytest

import symgrad as sg


@pytest.fixture
def x():
    return sg.tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.parametrize("switch", [sg.no_grad, sg.no_grad(), sg.inference_mode, sg.inference_mode(), sg.inference_mode(True)])
def test_decorated_function_records_nothing(x, switch):
    @switch
    def double(t):
        """doc"""
        return t * 2

    assert not double(x).requires_grad
    assert not double(x).requires_grad
    assert (x * 2).requires_grad
    assert (double.__name__, double.__doc__) == ("double", "doc")


def test_blocks_nest_and_restore(x):
    with sg.no_grad():
        assert not sg.is_grad_enabled()
        with sg.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert sg.is_grad_enabled()


def test_an_error_restores_the_mode():
    with pytest.raises(KeyError), sg.no_grad():
        raise KeyError
    assert sg.is_grad_enabled()


def test_one_object_may_be_entered_twice():
    off = sg.no_grad()
    with off:
        with off:
            pass
        assert not sg.is_grad_enabled()
    assert sg.is_grad_enabled()


def test_set_grad_enabled_as_call_block_and_decorator():
    try:
        sg.set_grad_enabled(False)
        assert not sg.is_grad_enabled()
    finally:
        sg.set_grad_enabled(True)
    with sg.set_grad_enabled(False):
        assert not sg.is_grad_enabled()
    assert sg.is_grad_enabled()

    @sg.set_grad_enabled(False)
    def mode():
        return sg.is_grad_enabled()

    assert sg.is_grad_enabled()
    assert not mode()
    assert sg.is_grad_enabled()


def test_inference_mode_can_be_switched_off_inside(x):
    with sg.inference_mode():
        assert sg.is_inference_mode_enabled()
        with sg.inference_mode(False):
            assert not sg.is_inference_mode_enabled()
            assert (x * 2).requires_grad
    with sg.no_grad(), sg.inference_mode(False):
        assert sg.is_grad_enabled()


def test_generator_switches_in_every_step_and_back_between_them(x):
    @sg.no_grad()
    def steps():
        got = yield x * 2
        try:
            yield got, sg.is_grad_enabled()
        except KeyError:
            yield "caught", sg.is_grad_enabled()
        return "end"

    generator = steps()
    assert not next(generator).requires_grad
    assert sg.is_grad_enabled()
    assert generator.send(7) == (7, False)
    assert generator.throw(KeyError()) == ("caught", False)
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "end"


def test_a_closed_generator_cleans_up_in_its_own_mode():
    modes = []

    @sg.no_grad()
    def steps():
        try:
            yield 1
        finally:
            modes.append(sg.is_grad_enabled())

    generator = steps()
    next(generator)
    generator.close()
    assert modes == [False]


def test_each_thread_starts_with_recording_on():
    found = []
    with sg.no_grad():
        thread = threading.Thread(target=lambda: found.append(sg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert found == [True]
