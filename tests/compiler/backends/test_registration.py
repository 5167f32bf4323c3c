"""A back end that is registered from outside: it compiles, differentiates and trains, and `auto` can choose it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.backends import auto
from symgrad.compiler.backends.base import BACKENDS, Backend, register, unregister
from symgrad.compiler.ir.interpret import evaluate
from symgrad.mode import Mode, local

# --- the back end

class ToyKernel:
    """A kernel that the reference interpreter runs."""

    on_device, x64, packing, donated = False, None, None, ()
    runs = 0

    def __init__(self, request):
        self.graph, self.name = request.graph, request.name
        self.types = [(x.shape, x.dtype) for x in request.graph.inputs]

    def __call__(self, arrays):
        ToyKernel.runs += 1
        outer, local.mode = local.mode, Mode()  # a kernel may run inside an eager op, whose context cannot be entered twice
        try:
            return [np.array(a) for a in evaluate(self.graph, arrays)]
        finally:
            local.mode = outer

    def launch(self, operands, found=None):
        return self([np.asarray(x) for x in operands])

    def executable(self, *operands):
        arrays = [np.asarray(x) for x in operands]
        if [(a.shape, a.dtype) for a in arrays] != self.types:
            raise TypeError(f"{self.name} takes {self.types}")
        results = self(arrays)
        return results if len(results) != 1 else results[0]

    def buffer(self, array, /):
        return np.array(array)

    def source(self):
        return f"# {self.name}\n{self.graph}"


TOY = Backend("toy", ToyKernel, title="Toy")


# --- kernels


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(ToyKernel, "runs", 0)
    register(TOY)
    yield ToyKernel
    unregister("toy")


def loss(x, w):
    return ((x @ w).tanh() - 0.5).square().sum()


def inputs():
    rng = np.random.default_rng(5)
    return [sg.tensor(rng.normal(size=shape)) for shape in ((4, 3), (3, 2))]


def test_calls(toy):
    x, w = inputs()
    fast = sg.compile(loss, backend="toy")
    for n in (1, 2, 3):
        np.testing.assert_allclose(fast(x, w).numpy(), loss(x, w).numpy(), rtol=1e-12)
        assert toy.runs == n
    single = sg.float32
    np.testing.assert_allclose(fast(x.to(single), w.to(single)).numpy(), loss(x.to(single), w.to(single)).numpy(), rtol=1e-6)
    there = sg.compile(lambda w: w * 1)(w)  # a tensor that XLA left on its device
    assert sg.is_tensor(fast(x, there))
    np.testing.assert_allclose(fast(x, there).numpy(), loss(x, w).numpy(), rtol=1e-12)


def test_derivatives(toy):
    x, w = inputs()
    fast = sg.compile(loss, backend="toy")
    eager = lambda w: loss(x, w)
    np.testing.assert_allclose(fast.grad(x, w, wrt="w").numpy(), sg.func.grad(eager)(w).numpy(), rtol=1e-12)
    np.testing.assert_allclose(fast.hessian(x, w, wrt="w").numpy(), sg.func.hessian(eager)(w).numpy(), rtol=1e-12, atol=1e-14)
    product = lambda x, w: (x @ w).tanh()
    found = sg.compile(product, backend="toy").jacobian(x, w, wrt="w")
    np.testing.assert_allclose(found.numpy(), sg.func.jacrev(lambda w: product(x, w))(w).numpy(), rtol=1e-12, atol=1e-14)
    assert toy.runs == 3
    mine, wanted = (w.clone().requires_grad_() for _ in range(2))
    fast(x, mine).backward()
    loss(x, wanted).backward()
    np.testing.assert_allclose(mine.grad.numpy(), wanted.grad.numpy(), rtol=1e-12)
    assert toy.runs == 5


def test_adam_steps(toy):
    def trained(prepare):
        sg.manual_seed(2)
        net = sg.nn.Sequential(sg.nn.Linear(3, 5), sg.nn.Tanh(), sg.nn.Linear(5, 1))
        optimizer = sg.optim.Adam(net.parameters(), lr=0.05)

        def step(x):
            optimizer.zero_grad()
            value = net(x).square().mean()
            value.backward()
            optimizer.step()
            return value

        run, x = prepare(step), inputs()[0].to(sg.float32)
        values = [run(x).item() for _ in range(3)]
        return values, [p.detach().numpy() for p in net.parameters()]

    eager = trained(lambda step: step)
    assert toy.runs == 0
    compiled = trained(lambda step: sg.compile(step, backend="toy"))
    assert toy.runs == 2  # the first step is traced
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-5)
    for a, b in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_inspection(toy):
    fast = sg.compile(loss, backend="toy")
    fast(*inputs())
    assert fast.source() == f"# forward\n{fast.graph()}"
    assert fast.source("grad", backend="numpy").startswith("import numpy as np\n")
    assert fast.cost().argument_bytes == 8 * (4 * 3 + 3 * 2)
    assert "back end    toy" in str(fast.explain())
    with pytest.raises(sg.errors.TraceError, match=re.escape("is run by Toy (backend='toy'), so there is no HLO")):
        fast.hlo()


def test_donating_is_not_asked_of_a_back_end_that_does_not_donate(toy):
    x, _ = inputs()
    fast = sg.compile(lambda x: x * 2, backend="toy", donate=True)
    assert fast(x).tolist() == (x * 2).tolist() == fast(x).tolist()
    assert fast._traced().operation.donates is None


@pytest.mark.parametrize(("donates", "pools"), [(True, True), (True, False), (False, False)])
def test_capabilities_decide_and_not_the_name(donates, pools):
    """XLA under another name: its step uses pooled buffers, or donates, or neither."""
    register(Backend("mine", "symgrad.compiler.backends.xla.kernel:make_kernel", donates=donates, pools=pools))
    try:
        weight = sg.tensor(np.ones((30, 20), np.float32))
        step = sg.compile(lambda x: (weight.mul_(x), None)[1], backend="mine")
        for _ in range(4):
            step(sg.tensor(2.0))
        assert (step._latest.runner.pool is not None) is pools
        assert step._latest.kernel().donated == ((1,) if donates else ())
        assert weight[0, 0].item() == 2.0**4
    finally:
        unregister("mine")


# --- names


def test_names_that_are_not_registered():
    with pytest.raises(ValueError, match=re.escape("backend='toy' is not registered: there are 'numpy', 'xla', 'auto'")):
        sg.compile(loss, backend="toy")
    with pytest.raises(ValueError, match=re.escape("'nunpy' is not registered: did you mean 'numpy'? There are 'numpy', 'xla', 'auto'")):
        sg.compile(loss, backend="nunpy")
    for name in (None, ["numpy"], 3):
        with pytest.raises(ValueError, match="is not registered"):
            sg.compile(loss, backend=name)
    with pytest.raises(ValueError, match="'toy' is not registered"):
        unregister("toy")


def test_a_function_of_a_back_end_that_was_unregistered():
    register(TOY)
    fast = sg.compile(loss, backend="toy")
    x, w = inputs()
    wanted = fast(x, w).item()
    unregister("toy")
    assert fast(x, w).item() == wanted
    with pytest.raises(ValueError, match="'toy' is not registered"):
        fast.grad(x, w)


def test_registration_is_checked(toy):
    with pytest.raises(ValueError, match="'toy' is registered already"):
        register(TOY)
    with pytest.raises(ValueError, match="'numpy' is registered already"):
        register(Backend("numpy", ToyKernel))
    with pytest.raises(ValueError, match="pools=True needs donates=True"):
        Backend("pooling", ToyKernel, pools=True)
    with pytest.raises(ValueError, match="has a name"):
        Backend("", ToyKernel)
    assert BACKENDS["toy"].title == "Toy"
    assert Backend("other", ToyKernel).title == "other"


def test_a_function_that_is_named_is_imported_when_it_is_first_used():
    register(Backend("named", "no_such_module:make_kernel"))
    try:
        fast = sg.compile(loss, backend="named")
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            fast(*inputs())
    finally:
        unregister("named")


# --- auto


class WrongKernel(ToyKernel):
    def __call__(self, arrays):
        return [a.astype(np.float16) for a in super().__call__(arrays)]


class RefusingKernel(ToyKernel):
    def __init__(self, request):
        raise sg.errors.GraphError("only on Mondays")


@pytest.fixture
def candidate(request):
    register(Backend("toy", request.param, title="Toy", candidate=True))
    yield
    unregister("toy")


def choice(monkeypatch, seconds):
    monkeypatch.setattr(auto, "MAX_SECONDS", 60)
    monkeypatch.setattr(auto, "_seconds", lambda kernel, operands: seconds[type(kernel).__name__])
    fast = sg.compile(loss, backend="auto")
    x, w = inputs()
    for _ in range(3):
        np.testing.assert_allclose(fast(x, w).numpy(), loss(x, w).numpy(), rtol=1e-12)
    return fast._traced().operation.kernel


@pytest.mark.parametrize("candidate", [ToyKernel], indirect=True)
@pytest.mark.parametrize("fastest", ["HostKernel", "XlaKernel", "ToyKernel"])
def test_auto_measures_every_candidate(candidate, fastest, monkeypatch):
    seconds = {"HostKernel": 2.0, "XlaKernel": 3.0, "ToyKernel": 4.0} | {fastest: 1.0}
    kernel = choice(monkeypatch, seconds)
    assert type(kernel.chosen).__name__ == fastest
    assert kernel.choice.seconds == {"numpy": seconds["HostKernel"], "xla": seconds["XlaKernel"], "toy": seconds["ToyKernel"]}
    if fastest == "ToyKernel":
        assert str(kernel.choice) == "Toy: 1 s a run, NumPy 2 s, XLA 3 s (the fastest of 5 runs each)"


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [(WrongKernel, "Toy gives other numbers, NumPy those of eager code"), (RefusingKernel, "Toy cannot run it (only on Mondays)")],
    indirect=["candidate"],
)
def test_auto_leaves_out_what_is_wrong_or_refuses(candidate, reason, monkeypatch):
    kernel = choice(monkeypatch, {"HostKernel": 2.0, "XlaKernel": 1.0, "WrongKernel": 0.1})
    assert str(kernel.choice) == f"XLA: 1 s a run, NumPy 2 s (the fastest of 5 runs each); {reason}"


@pytest.mark.parametrize("candidate", [ToyKernel], indirect=True)
def test_auto_times_a_kernel_without_an_executable(candidate, monkeypatch):
    monkeypatch.setattr(ToyKernel, "executable", None)
    monkeypatch.setattr(auto, "MAX_SECONDS", 60)
    fast = sg.compile(loss, backend="auto")
    fast(*inputs())
    assert fast._traced().operation.kernel.choice.seconds.keys() == {"numpy", "xla", "toy"}


def test_auto_does_not_measure_a_back_end_that_is_no_candidate(toy, monkeypatch):
    assert choice(monkeypatch, {"HostKernel": 1.0, "XlaKernel": 2.0}).choice.seconds == {"numpy": 1.0, "xla": 2.0}
    assert toy.runs == 0
