"""fast.sparsity(): places, text, pictures."""

from __future__ import annotations

import time
import xml.dom.minidom

import numpy as np
import pytest

import symgrad as sg


def chain(x):
    return (x[1:] * x[:-1]).square().sum()


def test_small_pattern_as_text():
    pattern = sg.compile(chain).sparsity(np.ones(4), wrt="x")
    assert repr(pattern) == (
        "sparsity of the hessian 4 × 4: 10 nonzeros, 0.625 of all (closed form)\n  ● ● · ·\n  ● ● ● ·\n  · ● ● ●\n  · · ● ●"
    )
    assert (pattern.shape, pattern.nnz, pattern.density, pattern.what) == ((4, 4), 10, 0.625, "hessian")
    np.testing.assert_array_equal(pattern.to_scipy().toarray(), np.tri(4, k=1, dtype=bool) & np.tri(4, k=1, dtype=bool).T)


def test_large_pattern_is_bounded():
    pattern = sg.compile(lambda x: x.flip(0) * 2).sparsity(np.ones(1000), wrt="x")
    lines = repr(pattern).splitlines()
    assert len(lines) == 21
    assert {len(line) for line in lines[1:]} == {50}
    assert lines[1].endswith("⠀⢀⡴⠋")
    assert lines[-1].startswith("  ⣠⠞⠁⠀")


def test_html_is_well_formed_and_small():
    for n in (0, 1, 3, 5000):
        text = sg.compile(lambda x: x * x).sparsity(np.ones(n), wrt="x")._repr_html_()
        xml.dom.minidom.parseString(text)
        assert len(text) < 10_000
    assert text.count("M") >= 240


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    pattern = sg.compile(chain).sparsity(np.ones(4), wrt="x")
    assert pattern.plot(axes) is axes
    image = np.asarray(axes.images[0].get_array())
    np.testing.assert_array_equal(image > 0, pattern.to_scipy().toarray())
    assert "10 nonzeros" in axes.get_title()
    pyplot.close(figure)


def test_of():
    fast = sg.compile(chain)
    assert fast.sparsity(np.ones(4), wrt="x", of="jacobian").shape == (1, 4)
    assert sg.compile(lambda x: x * x).sparsity(np.ones(4), wrt="x").what == "jacobian"
    pairs = sg.compile(lambda x, y: (x * y).sum()).sparsity(np.ones(4), np.ones(4), wrt=("x", "y"))
    assert [[block.nnz for block in row] for row in pairs] == [[0, 4], [4, 0]]
    with pytest.raises(ValueError, match="of='gradient'"):
        fast.sparsity(np.ones(4), of="gradient")


@pytest.mark.slow
def test_time_is_linear():
    def seconds(n):
        x, times = np.ones(n), []
        for _ in range(3):
            fast = sg.compile(chain)
            start = time.perf_counter()
            fast.sparsity(x, wrt="x")
            times.append(time.perf_counter() - start)
        return min(times)

    seconds(100)
    assert seconds(400_000) < 12 * seconds(100_000)
