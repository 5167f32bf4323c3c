"""compile(backend=...): NumPy source, gradients, training and no JAX; and which of the two back ends auto keeps."""

from __future__ import annotations

import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest
from numpy_graphs import tensors
from training_steps import training_step

import symgrad as sg
from symgrad.compiler.backends.numpy.kernel import HostKernel
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value


def loss(x, w, y):
    return ((x @ w).tanh() - y).square().sum()


def test_source():
    fast = sg.compile(loss, backend="numpy")
    fast(*tensors((64, 300), (300, 100), (64, 100)))
    assert fast.source() == (
        "import numpy as np\n"
        "\n\n"
        "def workspace():\n"
        '    """Memory for what is computed on the way; of calls at the same time each needs its own."""\n'
        "    return (np.empty((64, 100), np.float32),)\n"
        "\n\n"
        "def forward(x, w, y, buffers=None):\n"
        '    """(x: float32[64, 300], w: float32[300, 100], y: float32[64, 100]) -> float32[]"""\n'
        "    b0, = buffers or workspace()\n"
        "    v0 = np.dot(x, w, out=b0)\n"
        "    v1 = np.tanh(v0, out=v0)\n"
        "    v2 = np.subtract(v1, y, out=v1)\n"
        "    v3 = np.square(v2, out=v2)\n"
        "    return np.add.reduce(v3, axis=(0, 1))\n"
    )
    small = sg.compile(loss, backend="numpy")
    small(*tensors((4, 3), (3, 2), (4, 2)))
    assert small.source("grad", wrt="w").splitlines()[-2:] == [
        "    v0 = np.tanh(x @ w)",
        "    return x.T @ ((1 - v0 * v0) * ((v0 - y) * 2))",
    ]


def test_source_is_a_module_of_its_own():
    arrays = tensors((64, 300), (300, 100), (64, 100))
    fast = sg.compile(loss, backend="numpy")
    wanted = fast(*arrays)
    scope: dict = {}
    exec(fast.source("value_and_grad"), scope)
    value, *gradients = scope["value_and_grad"](*(a.numpy() for a in arrays))
    assert value == wanted.item()
    np.testing.assert_allclose(gradients[1], fast.grad(*arrays, wrt="w").numpy())


def test_source_of_the_other_back_end():
    fast = sg.compile(loss)
    fast(*tensors((4, 3), (3, 2), (4, 2)))
    assert fast.source(backend="numpy").startswith("import numpy as np\n")
    assert fast.source().startswith("import jax.numpy as jnp\n")
    assert fast.source("grad", backend="numpy") != fast.source("grad")
    with pytest.raises(ValueError, match="'numpy'"):
        fast.source(backend="torch")


def test_gradients_of_every_kind():
    x, w, y = tensors((8, 6), (6, 5), (8, 5))
    fast = sg.compile(loss, backend="numpy")
    eager = w.clone().requires_grad_()
    loss(x, eager, y).backward()
    gradient = fast.grad(x, w, y, wrt="w")
    np.testing.assert_allclose(gradient.numpy(), eager.grad.numpy(), rtol=1e-5)
    mine = w.clone().requires_grad_()
    fast(x, mine, y).backward()
    np.testing.assert_allclose(mine.grad.numpy(), eager.grad.numpy(), rtol=1e-5)
    (first,) = sg.autograd.grad(fast(x, mine, y), mine, create_graph=True)
    (second,) = sg.autograd.grad(first.square().sum(), mine)
    (wanted,) = sg.autograd.grad(loss(x, eager, y), eager, create_graph=True)
    (wanted,) = sg.autograd.grad(wanted.square().sum(), eager)
    np.testing.assert_allclose(second.numpy(), wanted.numpy(), rtol=1e-4)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_training_is_what_eager_training_is(name):
    def trained(prepare):
        sg.manual_seed(3)
        net = sg.nn.Sequential(sg.nn.Linear(20, 60), sg.nn.ReLU(), sg.nn.Linear(60, 60), sg.nn.Tanh(), sg.nn.Linear(60, 4))
        options = {"momentum": 0.9, "lr": 0.05} if name == "SGD" else {"lr": 1e-2}
        optimizer = getattr(sg.optim, name)(net.parameters(), **options)
        run = prepare(training_step(net, optimizer, sg.nn.functional.cross_entropy))
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        losses = []
        for i in range(20):
            if i == 10:
                optimizer.param_groups[0]["lr"] *= 0.5
            x, y = sg.tensor(rng.normal(size=(50, 20)).astype(np.float32)), sg.tensor(rng.integers(0, 4, 50))
            losses.append(run(x, y).item())
        return np.array(losses), [p.detach().numpy() for p in net.parameters()], [p.grad.numpy() for p in net.parameters()]

    wanted, found = trained(lambda step: step), trained(lambda step: sg.compile(step, backend="numpy"))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
    for a, b in zip(found[1] + found[2], wanted[1] + wanted[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)


def test_new_state_takes_the_place_of_the_old_without_a_copy():
    """Unless somebody else sees the memory: then the values are copied into it."""
    weight, shared = (sg.tensor(np.ones(5000, np.float32)) for _ in range(2))
    view = shared.numpy()

    @sg.compile(backend="numpy")
    def step(x):
        weight.mul_(x)
        shared.mul_(x)
        return x + 1

    two = sg.tensor(2.0)
    step(two)
    before = [t._array.ctypes.data for t in (weight, shared)]
    step(two)
    assert weight._array.ctypes.data != before[0]
    assert shared._array.ctypes.data == before[1]
    assert weight[0].item() == view[0] == 4


def test_tensors_of_the_other_back_end():
    """What XLA left on its device is an argument like any other."""
    x, w, y = tensors((8, 6), (6, 5), (8, 5))
    there = sg.compile(lambda w: w * 2)(w)
    found = sg.compile(loss, backend="numpy")(x, there, y)
    np.testing.assert_allclose(found.numpy(), loss(x, w * 2, y).numpy(), rtol=1e-5)


PROGRAM = """
import sys
sys.modules["jax"] = None  # every import of it fails
import numpy as np
import symgrad as sg
w = sg.tensor(np.ones((3, 2), np.float32), requires_grad=True)
fast = sg.compile(lambda x, w: (x @ w).tanh().sum(), {options})
x = sg.tensor(np.ones((4, 3), np.float32))
fast(x, w).backward()
optimizer = sg.optim.Adam([w])

@sg.compile({options})
def step(x):
    optimizer.zero_grad()
    loss = (x @ w).square().mean()
    loss.backward()
    optimizer.step()
    return loss

for _ in range(4):
    step(x)
print(fast.source("vjp").splitlines()[0], fast.value_and_grad(x, w)[0].item() > 0)
assert not any(name.startswith("jaxlib") for name in sys.modules)
"""


def test_jax_is_not_needed():
    def run(options):
        command = [sys.executable, "-P", "-c", PROGRAM.replace("{options}", options)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run('backend="numpy"')
    assert done.stdout == "import numpy as np True\n", done.stderr
    assert "jax" in run("").stderr


# --- auto


def test_auto_measures_both_and_keeps_the_faster(monkeypatch):
    from symgrad.compiler.backends import auto

    taken = {"numpy": 2e-3, "xla": 1e-3}
    monkeypatch.setattr(auto, "MAX_SECONDS", 60)
    monkeypatch.setattr(auto, "_seconds", lambda kernel, held: taken["xla" if kernel.on_device else "numpy"])
    for slower, faster in (("numpy", "xla"), ("xla", "numpy")):
        taken[slower], taken[faster] = 2e-3, 0.5e-3
        fast = sg.compile(loss, backend="auto")
        given = tensors((8, 6), (6, 5), (8, 5))
        np.testing.assert_allclose(fast(*given).numpy(), loss(*given).numpy(), rtol=1e-5)
        kernel = fast._traced().operation.kernel
        assert kernel.choice.backend == faster
        assert kernel.choice.seconds == taken
        assert kernel.on_device == (faster == "xla")
        names = {"numpy": "NumPy", "xla": "XLA"}
        assert str(kernel.choice) == f"{names[faster]}: 500 µs a run, {names[slower]} 2 ms (the fastest of 5 runs each)"
        assert ("jnp" in fast.source()) == (faster == "xla")
        np.testing.assert_allclose(fast(*given).numpy(), loss(*given).numpy(), rtol=1e-5)


def test_auto_goes_on_measuring_at_the_next_call(monkeypatch):
    from symgrad.compiler.backends import auto

    monkeypatch.setattr(auto, "MAX_SECONDS", 0)
    monkeypatch.setattr(auto, "_seconds", lambda kernel, held: 1.0)
    fast = sg.compile(loss, backend="auto")
    given = tensors((8, 6), (6, 5), (8, 5))
    fast(*given)
    kernel = fast._traced().operation.kernel
    assert str(kernel.choice) == "NumPy: both are measured on the first calls"
    monkeypatch.setattr(auto, "MAX_SECONDS", 60)
    fast(*given)
    assert kernel.choice.final
    assert "chosen because  NumPy: 1 s a run, XLA 1 s (the fastest of 5 runs each)" in str(fast.explain())


@pytest.mark.parametrize("kind", ["function", "gradient", "step"])
def test_auto_measures_arguments_as_they_come_and_what_is_brought_along_where_it_will_be(kind, monkeypatch):
    """Else XLA would not pay for moving a batch to its device, or would pay for parameters that stay there."""
    from symgrad.compiler.backends import auto

    seen = []

    def seconds(kernel, held):
        seen.append((kernel.on_device, [type(x) is np.ndarray for x in held]))
        return 1.0

    monkeypatch.setattr(auto, "_seconds", seconds)
    weight = sg.tensor(np.ones((3, 2), np.float32), requires_grad=kind == "step")

    def value(x, y):
        return (x @ weight - y).square().sum()

    def step(x, y):
        weight.grad = None
        total = value(x, y)
        total.backward()
        with sg.no_grad():
            weight.sub_(weight.grad)
        return total.detach()

    fast = sg.compile(step if kind == "step" else value, backend="auto")
    x, y = tensors((4, 3), (4, 2))
    there = sg.compile(lambda y: y * 2)(y)
    for _ in range(3):
        fast.grad(x, there) if kind == "gradient" else fast(x, there)
    assert seen == [(False, [True, False, True]), (True, [True, False, False])] * auto.ROUNDS


@pytest.mark.parametrize("faster", ["numpy", "xla"])
def test_auto_measures_what_would_run(faster, monkeypatch):
    """A step of XLA's is given the memory of what it writes to, when it is measured and afterwards."""
    from symgrad.compiler.backends import auto

    seen = []

    def seconds(kernel, held):
        kernel.launch(held)
        seen.append((kernel.donated, [x.is_deleted() for x in held if type(x) is not np.ndarray]))
        return float(kernel.on_device != (faster == "xla"))

    monkeypatch.setattr(auto, "_seconds", seconds)
    weight = sg.tensor(np.ones((300, 200), np.float32))
    fast = sg.compile(lambda x: (weight.mul_(x), None)[1], backend="auto")
    for _ in range(3):
        fast(sg.tensor(2.0))
    assert seen[:2] == [((), []), ((1,), [True])]
    before = weight._storage
    fast(sg.tensor(2.0))
    assert fast._latest.kernel().donated == ((1,) if faster == "xla" else ())
    assert faster == "numpy" or before.is_deleted()
    assert weight[0, 0].item() == 2.0**4


def test_auto_gives_arguments_away_if_it_is_told_to(monkeypatch):
    from symgrad.compiler.backends import auto

    monkeypatch.setattr(auto, "_seconds", lambda kernel, held: float(not kernel.on_device))
    double = sg.compile(lambda x: x * 2, backend="auto", donate=True)
    x = double(double(sg.ones(300)))
    assert double(x).tolist() == [8.0] * 300
    with pytest.raises(RuntimeError, match="was donated to a compiled function"):
        x.tolist()


def test_auto_without_the_other_back_end():
    from symgrad.compiler.backends.auto import AutoKernel

    x = input_value(0, (3,), np.float32)
    graph = Graph([x], [xp.tanh(x)])

    def missing():
        raise ImportError("No module named 'jax'")

    kernel = AutoKernel("forward", {"numpy": lambda: HostKernel(graph), "xla": missing})
    np.testing.assert_array_equal(kernel([np.zeros(3, np.float32)])[0], np.zeros(3))
    assert str(kernel.choice) == "NumPy: XLA cannot run it (No module named 'jax')"


def test_auto_does_not_choose_what_is_wrong():
    from symgrad.compiler.backends.auto import AutoKernel

    x = input_value(0, (3,), np.float32)
    array = np.ones(3, np.float32)

    def candidates(factor):
        return {"numpy": lambda: HostKernel(Graph([x], [x * 2])), "xla": lambda: HostKernel(Graph([x], [x * factor]))}

    kernel = AutoKernel("forward", candidates(2.1))
    np.testing.assert_array_equal(kernel([array])[0], [2, 2, 2])
    assert str(kernel.choice) == "NumPy: XLA gives other numbers, NumPy those of eager code"
    same = AutoKernel("forward", candidates(2.0001))
    same([array])
    assert "other numbers" not in str(same.choice)


@pytest.mark.parametrize("faster", ["numpy", "xla"])
def test_auto_trains(faster, monkeypatch):
    """A step that writes to parameters is measured without writing twice, and goes on with either."""
    from symgrad.compiler.backends import auto

    monkeypatch.setattr(auto, "_seconds", lambda kernel, held: float(kernel.on_device != (faster == "xla")))
    weight = sg.tensor(np.ones((3, 2), np.float32), requires_grad=True)
    optimizer = sg.optim.SGD([weight], lr=0.01, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        value = (x @ weight).square().sum()
        value.backward()
        optimizer.step()
        return value

    compiled = sg.compile(step, backend="auto")
    (x,) = tensors((4, 3))
    found = [compiled(x).item() for _ in range(6)]
    with sg.no_grad():
        weight.fill_(1)
    optimizer.state.clear()
    np.testing.assert_allclose(found, [step(x).item() for _ in range(6)], rtol=1e-4)


def test_auto_in_threads():
    fast = sg.compile(loss, backend="auto")
    given = tensors((8, 6), (6, 5), (8, 5))
    wanted = loss(*given).item()
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.extend(fast(*given).item() for _ in range(20))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len(found) == 80
