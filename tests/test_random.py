"""Random tensors: the stream and its state, the distributions, and drawing in place."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import symgrad as sg


def test_a_seed_gives_pytorchs_numbers():
    assert sg.manual_seed(5) is sg.default_generator
    expected = [0.8302519, 0.12611091, 0.9074697, 0.81992704]
    np.testing.assert_array_equal(sg.rand(3, 4).numpy()[0], np.array(expected, np.float32))
    sg.manual_seed(5)
    np.testing.assert_array_equal(sg.Tensor(4).uniform_().numpy(), np.array(expected, np.float32))


def test_state_can_be_kept_and_restored():
    state = sg.get_rng_state()
    assert (state.dtype, state.shape) == (sg.uint8, (5056,))
    first = sg.randn(20)
    sg.set_rng_state(state)
    assert sg.randn(20).tolist() == first.tolist()
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        sg.set_rng_state(sg.ones(3))
    with sg.random.fork_rng():
        drawn = sg.rand(1)
    assert sg.rand(1).tolist() == drawn.tolist()


def test_generators_are_separate():
    gen = sg.Generator().manual_seed(3)
    assert gen.device == sg.device("cpu")
    assert gen.initial_seed() == 3
    before = sg.get_rng_state()
    drawn = sg.rand(3, generator=gen)
    assert sg.get_rng_state().tolist() == before.tolist()
    assert sg.rand(3, generator=gen.manual_seed(3)).tolist() == drawn.tolist()
    twin = copy.deepcopy(gen)
    assert sg.randperm(9, generator=twin).tolist() == sg.randperm(9, generator=gen).tolist()
    assert gen.clone_state().get_state().tolist() == gen.get_state().tolist()
    with pytest.raises(TypeError, match="argument 'generator' must be Generator, not int"):
        sg.rand(3, generator=3)


def test_seeding_from_entropy():
    assert sg.seed() == sg.initial_seed()


def test_randint():
    assert set(sg.randint(3, (200,)).tolist()) == {0, 1, 2}
    assert set(sg.randint(5, 7, (200,)).tolist()) == {5, 6}
    assert sg.randint(low=1, high=4, size=[2, 2], dtype=sg.float32).dtype is sg.float32
    assert sg.randint(high=4, size=(2,)).dtype is sg.int64
    assert sg.randint_like(sg.ones(3), 2, 5).dtype is sg.float32
    with pytest.raises(RuntimeError, match="'from' to be less than 'to'"):
        sg.randint(10, 3, (2,))
    with pytest.raises(TypeError, match="argument 'size' must be tuple of ints, not int"):
        sg.randint(10, 2)


def test_normal():
    sg.manual_seed(0)
    t = sg.normal(2.0, 3.0, (10000,))
    assert abs(t.numpy().mean() - 2) < 0.1
    assert abs(t.numpy().std() - 3) < 0.1
    assert sg.normal(sg.zeros(2, 1), sg.ones(3)).shape == (2, 3)
    assert sg.normal(0.0, sg.zeros(3)).tolist() == [0, 0, 0]
    assert sg.normal(sg.tensor([5.0]), 0.0).tolist() == [5]
    with pytest.raises(RuntimeError, match=r"std >= 0\.0, but found std -1"):
        sg.normal(sg.zeros(3), -1.0)
    with pytest.raises(TypeError, match="need a size"):
        sg.normal(0.0, 1.0)


def test_bernoulli_and_multinomial():
    p = sg.tensor([0.0, 1.0, 0.0])
    assert sg.bernoulli(p).tolist() == [0, 1, 0]
    assert p.bernoulli(1.0).tolist() == [1, 1, 1]
    assert sg.ones(3).bernoulli_(p).tolist() == [0, 1, 0]
    assert p.multinomial(1).tolist() == [1]
    assert sg.multinomial(p, 3, replacement=True).tolist() == [1, 1, 1]


def test_drawing_in_place():
    x = sg.zeros(2, 50)
    for draw, low, high in (
        (lambda: x.uniform_(2, 3), 2, 3),
        (lambda: x.random_(4), 0, 3),
        (lambda: x.random_(5, 7), 5, 6),
        (lambda: x.exponential_(), 0, 50),
        (lambda: x.geometric_(0.5), 0, 60),
        (lambda: x.log_normal_(), 0, 1e5),
    ):
        assert draw() is x
        assert low <= x.numpy().min() < x.numpy().max() <= high
    assert abs(x.normal_(10, 0.1).numpy().mean() - 10) < 0.1
    assert len(set(x.cauchy_().numpy().ravel())) > 50


def test_drawing_in_place_ends_the_gradient():
    x = sg.ones(3, requires_grad=True)
    y = x * 2
    y.normal_()
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    before = sg.get_rng_state()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.uniform_()
    assert sg.get_rng_state().tolist() == before.tolist()  # nothing was drawn


def test_wrong_types():
    for make in (lambda: sg.rand(2, dtype=sg.int64), lambda: sg.ones(2, dtype=sg.int64).normal_()):
        with pytest.raises(NotImplementedError, match="int64"):
            make()


@pytest.mark.parametrize("count", [0, 1, 5, 623, 624, 2000])
@pytest.mark.parametrize("plain", [False, True])
def test_a_stream_goes_back_to_a_mark(count, plain):
    gen = sg.Generator()
    gen.manual_seed(3)
    sg.rand(count, generator=gen)
    sg.randn(3, generator=gen)
    if plain:  # as if NumPy laid out its memory in another way
        gen._words = None
    mark, state = gen.mark(), gen.get_state()
    wanted = sg.rand(700, generator=gen), sg.randn(3, generator=gen)
    gen.manual_seed(8)
    gen.rewind(mark)
    assert (gen.get_state() == state).all()
    assert gen.initial_seed() == 3
    assert [t.tolist() for t in wanted] == [sg.rand(700, generator=gen).tolist(), sg.randn(3, generator=gen).tolist()]
