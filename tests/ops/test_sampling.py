"""The random stream: values obtained from torch 2.13.0+cpu, states, statistics, errors."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from symgrad.ops import boxmuller, generator, sampling
from symgrad.ops.generator import Generator


@pytest.fixture
def gen() -> Generator:
    return Generator().manual_seed(5)


def same(actual: np.ndarray, expected: Any) -> None:
    np.testing.assert_array_equal(actual, np.array(expected, actual.dtype))


# torch.manual_seed(5) before each


def test_uniform(gen: Generator) -> None:
    expected = [[0.8302519, 0.12611091, 0.9074697, 0.81992704], [0.92010343, 0.11664522, 0.16439152, 0.7379194],
                [0.033264637, 0.99418473, 0.60642856, 0.56457126]]  # fmt: skip
    same(sampling.uniform(gen, (3, 4), "float32"), expected)
    same(sampling.uniform(gen.manual_seed(5), 4, "float16"), [0.83, 0.1261, 0.907, 0.82])
    expected64 = [0.6420150066280941, 0.2597579151763153, 0.36082761942715424, 0.31513260814905053]
    same(sampling.uniform(gen.manual_seed(5), 4, "float64"), expected64)


def test_uniform_between(gen: Generator) -> None:
    same(sampling.uniform(gen, 4, "f4", -0.1, 0.1), [0.06605037, -0.07477782, 0.08149394, 0.06398541])


def test_normal_of_few(gen: Generator) -> None:
    same(sampling.normal(gen, 5, "f4"), [-0.48678076, -0.6038216, -0.55809623, 0.6675243, -0.1974151])


def test_normal_in_blocks(gen: Generator) -> None:
    expected = [1.8423299, 0.51888716, -0.33644935, -0.9650602, -0.12966268, -0.60176563, 0.14499857, -0.14982717,
                2.614577, -0.43402296, -0.05833946, -2.0304952, 1.4829323, 0.49403808, 0.24921878, 1.7470315,
                0.74477696, 0.031656895]  # fmt: skip
    same(sampling.normal(gen, (3, 6), "f4").ravel(), expected)


def test_normal_in_float64(gen: Generator) -> None:
    first, last = [0.8235713931461853, 0.009228908309274562, 0.7631504315434021], 1.9172346797519741
    out = sampling.normal(gen, 17, "f8")
    np.testing.assert_allclose(out[[0, 1, 2, -1]], [*first, last], rtol=1e-15)


def test_normal_of_many() -> None:
    out = sampling.normal(Generator().manual_seed(0), 100003, "f4")
    assert zlib.crc32(out.astype("<f4").tobytes()) == 709263748


def test_complex(gen: Generator) -> None:
    expected = [-0.34420597553253174 - 0.4269663393497467j, -0.39463362097740173 + 0.4720109701156616j]
    same(sampling.normal(gen, 2, "complex64"), expected)
    same(sampling.uniform(gen.manual_seed(5), (1, 1), "complex64"), [[0.8302519 + 0.12611091j]])


def test_randint(gen: Generator) -> None:
    same(sampling.randint(gen, 0, 10, 12), [1, 4, 7, 5, 6, 0, 2, 3, 8, 4, 9, 0])
    same(sampling.randint(gen, -(2**40), 2**40, 3), [667240942192, -418816700720, -1065191313204])


def test_random_(gen: Generator) -> None:
    same(sampling.random_(gen, 3, "i8"), [4095051218741643470, 6838803925648402109, 3813295331020233846])
    same(sampling.random_(gen, 3, "u1"), [144, 73, 8])
    same(sampling.random_(gen, 3, "f4"), [16679630, 10174027, 9471833])


def test_randperm(gen: Generator) -> None:
    same(sampling.randperm(gen, 20), [11, 0, 9, 10, 3, 15, 14, 18, 8, 2, 19, 6, 5, 12, 1, 7, 4, 17, 16, 13])


def test_bernoulli(gen: Generator) -> None:
    same(sampling.bernoulli(gen, 0.3, 12, "i4"), [0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    same(sampling.bernoulli(gen, np.float32([0.3]), 12, "f4"), [0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0])


def test_dropout_mask(gen: Generator) -> None:
    same(sampling.dropout_mask(gen, 20, 0.4), [0, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1])


def test_multinomial(gen: Generator) -> None:
    weights = np.array([0.1, 0.2, 0.3, 0.4], "f4")
    same(sampling.multinomial(gen, weights, 8, True), [3, 1, 2, 2, 1, 3, 2, 3])
    same(sampling.multinomial(gen, weights, 3), [3, 2, 1])
    same(sampling.multinomial(gen, np.array([[0.0, 1, 2], [3, 0, 0]], "f4"), 1), [[2], [0]])


def test_exponential(gen: Generator) -> None:
    same(sampling.exponential(gen, 4, "f4", 2.0), [0.5136321, 0.150389, 0.22379054, 0.18926503])


def test_calls_stay_in_step() -> None:
    gen = Generator().manual_seed(7)
    same(sampling.uniform(gen, 3, "f4"), [0.53492254, 0.19880319, 0.6592117])
    same(sampling.normal(gen, 5, "f4")[-1:], [-1.2119222])
    same(sampling.normal(gen, 20, "f4")[-1:], [0.39574093])
    same(sampling.randint(gen, 0, 100, 3), [19, 7, 83])
    same(sampling.randperm(gen, 5), [0, 4, 1, 2, 3])
    same(sampling.normal(gen, 1, "f4"), [0.7962813])  # the spare number of the five


# Against the same algorithm, written plainly


def test_swaps_are_those_of_the_loop(gen: Generator) -> None:
    for n in (0, 1, 2, 3, 10, 999):
        draws = copy.deepcopy(gen).draw32(max(n - 1, 0)).tolist()
        expected = list(range(n))
        for i, draw in enumerate(draws):
            j = i + draw % (n - i)
            expected[i], expected[j] = expected[j], expected[i]
        same(sampling.randperm(gen, n), expected)


def test_huge_permutations_are_built_inside_out(gen: Generator) -> None:
    expected: list[int] = []
    for i, draw in enumerate(copy.deepcopy(gen).draw64(1000).tolist()):
        j = draw % (i + 1)
        expected.append(i)
        expected[i], expected[j] = expected[j], i
    same(sampling._inside_out(gen, 1000), expected)


@pytest.mark.parametrize(("scale", "shift"), [(0.7, 0.1), (-1.7, 3.3), (1e-3, 5.0), (1.0, 0.2), (3.0, 0.0)])
def test_fused_multiply_add_rounds_once(gen: Generator, scale: float, shift: float) -> None:
    from fractions import Fraction

    x = sampling.uniform(gen, 500, "f8")
    expected = [float(Fraction(value) * Fraction(scale) + Fraction(shift)) for value in x.tolist()]
    same(boxmuller.fma(x, scale, shift), expected)


def test_fused_multiply_add_of_the_largest_numbers() -> None:
    assert boxmuller.fma(np.array([0.5]), 1e308, 1e300).item() == pytest.approx(5e307)
    assert boxmuller.fma(np.array([0.5]), 2.5, np.inf).item() == np.inf


# State


def test_state_is_that_of_torch() -> None:
    state = Generator().manual_seed(7).get_state()
    assert (state.dtype, state.shape) == (np.uint8, (5056,))
    assert zlib.crc32(state.tobytes()) == 2460441901


@pytest.mark.parametrize("drawn", [0, 1, 5, 623, 624, 625, 2000])
@pytest.mark.parametrize("form", [lambda s: s, lambda s: s.tobytes(), lambda s: memoryview(s.tobytes())])
def test_state_restores(drawn: int, form: Callable[[np.ndarray], Any]) -> None:
    gen = Generator().manual_seed(3)
    gen.draw32(drawn)
    sampling.normal(gen, 3, "f4")  # leaves a spare number
    state = gen.get_state()
    expected = sampling.normal(gen, 7, "f4"), sampling.uniform(gen, 700, "f8")
    other = Generator()
    other.set_state(form(state))
    same(other.get_state(), state)
    same(sampling.normal(other, 7, "f4"), expected[0])
    same(sampling.uniform(other, 700, "f8"), expected[1])
    assert other.initial_seed() == 3


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda gen: pickle.loads(pickle.dumps(gen))])
def test_copies_go_their_own_way(gen: Generator, duplicate: Callable[[Generator], Generator]) -> None:
    other = duplicate(gen)
    same(other.draw32(200), gen.draw32(200))
    gen.draw32(1)
    assert (other.draw32(5) != gen.draw32(5)).any()


def test_seeds() -> None:
    gen = Generator()
    assert gen.initial_seed() == 67280421310721
    assert gen.manual_seed(-1) is gen
    assert gen.initial_seed() == 2**64 - 1
    assert gen.manual_seed(np.int64(4)).initial_seed() == 4
    seeds = {gen.seed() for _ in range(4)}
    assert len(seeds) == 4
    assert gen.initial_seed() in seeds
    gen.manual_seed(2**32 + 9)
    same(gen.draw32(3), Generator().manual_seed(9).draw32(3))


def test_seeding_again_starts_anew(gen: Generator) -> None:
    first = sampling.normal(gen, 3, "f8")
    same(sampling.normal(gen.manual_seed(5), 3, "f8"), first)


def test_few_and_many_draws_are_one_stream(gen: Generator) -> None:
    pieces = [gen.draw32(count) for count in (1, 127, 128, 3, 1000, 0, 60)]
    same(np.concatenate(pieces), gen.manual_seed(5).draw32(1319))


def test_threads_share_a_generator_without_losing_draws(gen: Generator) -> None:
    out: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: out.append(sampling.uniform(gen, 5000, "f4"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sampling.uniform(gen.manual_seed(5), 40000, "f4").reshape(8, 5000)
    assert sorted(piece.tobytes() for piece in out) == sorted(row.tobytes() for row in expected)


def test_the_module_does_not_import_numpy_random() -> None:
    code = (
        "import runpy, sys; names = runpy.run_path(sys.argv[1]); print('numpy.random' in sys.modules); "
        "names['Generator']().draw32(1); print('numpy.random' in sys.modules)"
    )
    assert generator.__file__ is not None
    command = [sys.executable, "-c", code, generator.__file__]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\nTrue\n"


# Shapes and dtypes


@pytest.mark.parametrize("shape", [(), 3, (2, 3), (0,), (4, 0, 2), [17, 2]])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_shapes(gen: Generator, shape: Any, dtype: str) -> None:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for draw in (sampling.uniform, sampling.normal):
        out = draw(gen, shape, dtype)
        assert (out.shape, out.dtype) == (sizes, np.dtype(dtype))
        assert out.flags.writeable
        assert out.flags.c_contiguous
    assert sampling.randint(gen, 0, 3, shape, "i4").shape == sizes
    assert sampling.bernoulli(gen, 0.5, shape, "f4").shape == sizes
    assert sampling.dropout_mask(gen, shape, 0.5).shape == sizes


def test_nothing_is_drawn_for_nothing(gen: Generator) -> None:
    before = gen.get_state()
    sampling.normal(gen, (3, 0), "f4")
    sampling.multinomial(gen, np.ones((0, 3)), 2)
    sampling.randperm(gen, 1)
    assert sampling.dropout_mask(gen, 9, 0).all()
    assert not sampling.dropout_mask(gen, 9, 1).any()
    same(gen.get_state(), before)


# Statistics


def test_moments(gen: Generator) -> None:
    n = 200_000
    for dtype in ("f2", "f4", "f8"):
        u = sampling.uniform(gen, n, dtype, -1, 3).astype("f8")
        assert -1 <= u.min() < u.max() < 3
        assert u.mean() == pytest.approx(1, abs=0.02)
        assert u.var() == pytest.approx(16 / 12, rel=0.02)
        z = sampling.normal(gen, n, dtype, 2, 3).astype("f8")
        assert z.mean() == pytest.approx(2, abs=0.05)
        assert z.std() == pytest.approx(3, rel=0.02)
        assert ((z - 2) ** 4).mean() / 81 == pytest.approx(3, rel=0.05)
        e = sampling.exponential(gen, n, dtype, 4).astype("f8")
        assert e.mean() == pytest.approx(0.25, rel=0.02)
        assert e.var() == pytest.approx(1 / 16, rel=0.05)
    z = sampling.normal(gen, n, "c16")
    assert np.mean(np.abs(z) ** 2) == pytest.approx(1, rel=0.02)


def test_frequencies(gen: Generator) -> None:
    n = 200_000
    counts = np.bincount(sampling.randint(gen, 0, 7, n), minlength=7)
    np.testing.assert_allclose(counts / n, 1 / 7, rtol=0.03)
    weights = np.array([1.0, 0, 3, 4])
    counts = np.bincount(sampling.multinomial(gen, weights, n, True), minlength=4)
    np.testing.assert_allclose(counts / n, weights / 8, rtol=0.03)
    counts = np.bincount(sampling.multinomial(gen, np.tile(weights, (n, 1)), 2)[:, 0], minlength=4)
    np.testing.assert_allclose(counts / n, weights / 8, rtol=0.03)
    assert sampling.bernoulli(gen, 0.2, n, "f4").mean() == pytest.approx(0.2, rel=0.03)
    assert sampling.dropout_mask(gen, n, 0.2).mean() == pytest.approx(0.8, rel=0.03)
    firsts = np.bincount([sampling.randperm(gen, 5)[0] for _ in range(5000)])
    np.testing.assert_allclose(firsts / 5000, 1 / 5, rtol=0.1)


def test_permutations_are_permutations(gen: Generator) -> None:
    for n in (0, 1, 2, 50, 5000):
        same(np.sort(sampling.randperm(gen, n)), range(n))


# Errors

ERRORS: list[tuple[type[Exception], str, Callable[[Generator], Any]]] = [
    (RuntimeError, "'from' to be less than 'to', but got from=5 >= to=5", lambda g: sampling.randint(g, 5, 5, 3)),
    (RuntimeError, "to - 1 is out of bounds for uint8", lambda g: sampling.randint(g, 0, 257, 3, "u1")),
    (RuntimeError, "from is out of bounds for int8", lambda g: sampling.random_(g, 3, "i1", 1000)),
    (RuntimeError, "'from' casted to dtype", lambda g: sampling.random_(g, 3, "f4", 2**24)),
    (RuntimeError, "only integral, floating-point and boolean", lambda g: sampling.randint(g, 0, 5, 3, "c8")),
    (ValueError, "Overflow when unpacking long long", lambda g: sampling.randint(g, 0, 2**63, 3)),
    (TypeError, "float", lambda g: sampling.randint(g, 0, 2.5, 3)),  # type: ignore[arg-type]
    (NotImplementedError, "over all of int64", lambda g: sampling.random_(g, 3, "i4", -(2**63))),
    (NotImplementedError, "without bounds is not implemented for uint16", lambda g: sampling.random_(g, 3, "u2")),
    (RuntimeError, "found from=2 > to=1", lambda g: sampling.uniform(g, 3, "f4", 2, 1)),
    (RuntimeError, "to is out of bounds for float32", lambda g: sampling.uniform(g, 3, "f4", 0, 1e39)),
    (RuntimeError, "from is out of bounds for float32", lambda g: sampling.uniform(g, 3, "f4", np.nan, 1)),
    (RuntimeError, "uniform_ expects to-from", lambda g: sampling.uniform(g, 3, "f4", -3e38, 3e38)),
    (NotImplementedError, "uniform_ is not implemented for int64", lambda g: sampling.uniform(g, 3, "i8")),
    (NotImplementedError, "normal_ is not implemented for int64", lambda g: sampling.normal(g, 3, "i8")),
    (RuntimeError, "std >= 0.0, but found std -1", lambda g: sampling.normal(g, 3, "f4", 0, -1)),
    (RuntimeError, "std >= 0.0, but found std nan", lambda g: sampling.normal(g, 3, "f4", 0, np.nan)),
    (RuntimeError, "lambda > 0.0, but found lambda=0", lambda g: sampling.exponential(g, 3, "f4", 0)),
    (RuntimeError, "a floating point, not int64", lambda g: sampling.exponential(g, 3, "i8", 1)),
    (RuntimeError, r"p to be in \[0, 1\], but got p=1.5", lambda g: sampling.bernoulli(g, 1.5, 3, "f4")),
    (RuntimeError, r"each p to be in \[0, 1\]", lambda g: sampling.bernoulli(g, np.array([0.5, 2]), 2, "f4")),
    (RuntimeError, r"shape \(2,\) to \(3,\)", lambda g: sampling.bernoulli(g, np.ones(2), 3, "f4")),
    (NotImplementedError, "bernoulli is not", lambda g: sampling.bernoulli(g, np.array([1]), 1, "f4")),
    (ValueError, "between 0 and 1, but got 1.5", lambda g: sampling.dropout_mask(g, 3, 1.5)),
    (RuntimeError, "n must be non-negative, got -1", lambda g: sampling.randperm(g, -1)),
    (RuntimeError, "greater than 256 for uint8", lambda g: sampling.randperm(g, 257, "u1")),
    (RuntimeError, "greater than 2049 for float16", lambda g: sampling.randperm(g, 2050, "f2")),
    (NotImplementedError, "randperm is not implemented for bool", lambda g: sampling.randperm(g, 2, "?")),
    (RuntimeError, "prob_dist must be 1 or 2 dim", lambda g: sampling.multinomial(g, np.ones(()), 1)),
    (RuntimeError, "only supports floating-point", lambda g: sampling.multinomial(g, np.array([1, 2]), 1)),
    (RuntimeError, "n_sample <= 0", lambda g: sampling.multinomial(g, np.ones(3), 0)),
    (RuntimeError, "without replacement", lambda g: sampling.multinomial(g, np.ones(3), 4)),
    (RuntimeError, "cannot exceed 2", lambda g: sampling.multinomial(g, np.ones(2**24 + 1, "f2"), 1)),
    (RuntimeError, "element < 0", lambda g: sampling.multinomial(g, np.array([1.0, -1]), 2, True)),
    (RuntimeError, "`nan`", lambda g: sampling.multinomial(g, np.array([1.0, np.nan]), 1)),
    (RuntimeError, "sum of probabilities <= 0", lambda g: sampling.multinomial(g, np.zeros((1, 2)), 2, True)),
    (RuntimeError, "negative dimension", lambda g: sampling.uniform(g, (2, -1), "f4")),
    (RuntimeError, "expected a long, but got float", lambda g: g.manual_seed(1.5)),  # type: ignore[arg-type]
    (RuntimeError, "expected a long, but got bool", lambda g: g.manual_seed(True)),
    (ValueError, "Overflow", lambda g: g.manual_seed(2**64)),
    (ValueError, "Overflow", lambda g: g.manual_seed(-(2**63) - 1)),
    (RuntimeError, "5056 bytes but found 3", lambda g: g.set_state(b"abc")),
    (RuntimeError, "Invalid mt19937 state", lambda g: g.set_state(bytes(5056))),
    (TypeError, "got float64", lambda g: g.set_state(np.zeros(5056))),
]


@pytest.mark.parametrize(("error", "text", "call"), ERRORS, ids=[text for _, text, _ in ERRORS])
def test_errors_draw_nothing(
    gen: Generator, error: type[Exception], text: str, call: Callable[[Generator], Any]
) -> None:
    before = gen.get_state()
    with pytest.raises(error, match=text):
        call(gen)
    same(gen.get_state(), before)


def test_warning_where_floats_skip_integers(gen: Generator) -> None:
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^11\), 2\^11\]"):
        out = sampling.randint(gen, 0, 3000, 9, "f2")
    assert out.max() < 3000
