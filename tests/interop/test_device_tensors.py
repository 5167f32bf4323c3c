"""A tensor is a tensor, wherever its memory is: results of kernels on the device, in donated memory, or in the buffers of a step."""

import copy
import functools
import math
import pickle

import jax
import numpy as np
import pytest
from public_calls import RECIPES, call_of, called, fresh, public_functions, public_methods

import symgrad as sg
from symgrad.device_buffers import BufferSlice, PooledBuffer, PoolState
from symgrad.device_tensor import is_on_device, pooled_tensor, tensor_from_storage
from symgrad.utils.data import DataLoader, TensorDataset, default_collate

NAMES = dict([*public_functions(), *public_methods()])


def put(array):
    with jax.enable_x64(True):
        return jax.device_put(array.copy())


def pooled(t):
    """A tensor that shares a device buffer with others, as gradients and parameters of a compiled step do."""
    array = np.array(t.detach().numpy())
    pack = PooledBuffer((array.size + 2,), array.dtype, PoolState(), put)
    pack.buffer = put(np.concatenate([np.zeros(2, array.dtype), array.reshape(-1)]))
    return pooled_tensor(BufferSlice(pack, array.shape, array.dtype, slice(2, None)))


def buffered(t):
    """Around a buffer of the device, as every result of a kernel is."""
    return tensor_from_storage(put(t.detach().numpy()))


@functools.cache
def copied(shape, dtype, donate):
    return sg.compile(lambda t: t.clone(), donate=donate)


def computed(donate):
    return lambda t: copied(t.shape, t.dtype, donate)(buffered(t))  # what comes from the device stays there


KINDS = {"on the device": computed(donate=False), "donated": computed(donate=True), "pooled": pooled}


def moved(args, kind):
    """The arguments with tensors elsewhere."""
    if isinstance(args, (tuple, list)):
        return type(args)(moved(x, kind) for x in args)
    if not isinstance(args, sg.Tensor):
        return args
    t = kind(args.detach())
    assert is_on_device(t)
    return t.requires_grad_() if args.requires_grad else t


def leaves(result):
    return [x for part in result for x in leaves(part)] if isinstance(result, (tuple, list)) else [result]


def assert_same(found, wanted):
    for x, y in zip(leaves(found), leaves(wanted), strict=True):
        assert x.__class__ is y.__class__
        if isinstance(x, sg.Tensor):
            assert (x.dtype, x.shape, x.requires_grad) == (y.dtype, y.shape, y.requires_grad)
            np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())
        else:
            assert x == y or (x != x and y != y)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_function_takes_results_of_kernels(name):
    f = NAMES[name]
    call = call_of(name, f, RECIPES)
    assert call is not None
    for kind in (buffered, pooled):
        args, host = moved(call[0], kind), fresh(call[0])
        assert_same(called(name, f, args), called(name, f, host))
        assert_same(args, host)  # written to, or not


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_flow_through_them(kind):
    x = moved(sg.tensor([1.0, 2.0], requires_grad=True), KINDS[kind])
    w = moved(sg.tensor([3.0, 4.0]), KINDS[kind])
    (x * w).sin().sum().backward(moved(sg.tensor(2.0), KINDS[kind]))
    wanted = 2 * np.array([3.0, 4.0]) * np.cos([3.0, 8.0])
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)
    y = moved(sg.tensor([1.0, 2.0]), KINDS[kind])
    np.testing.assert_allclose(sg.func.grad(lambda a: (a * w).sin().sum())(y).numpy(), wanted / 2, rtol=1e-6)
    fast = sg.compile(lambda a, w: (a * w).sin().sum())
    np.testing.assert_allclose(fast.grad(y, w, wrt="a").numpy(), wanted / 2, rtol=1e-6)
    assert "cos" in str(sg.derive(lambda a, w: (a * w).sin().sum(), wrt="a")(y, w))
    np.testing.assert_allclose(sg.autograd.functional.jvp(lambda a: a.sin(), y, w)[1].numpy(), w.numpy() * np.cos(y.numpy()), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_copies(kind, tmp_path):
    host = sg.tensor([[1.0, 2.0], [3.0, 4.0]])
    t = moved(host, KINDS[kind])
    sg.save({"a": t, "list": [t, (t,)], "p": sg.nn.Parameter(moved(host, KINDS[kind]))}, tmp_path / "a.safetensors")
    found = sg.load(tmp_path / "a.safetensors")
    for x in (found["a"], *found["list"][1], found["p"], copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert_same(x.detach(), host)
    assert type(found["p"]) is sg.nn.Parameter
    np.save(tmp_path / "a.npy", moved(host, KINDS[kind]))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), host.numpy())
    assert_same(sg.load(tmp_path / "a.npy"), host)
    assert_same(sg.from_dlpack(moved(host, KINDS[kind])), host)
    assert_same(sg.tensor(moved(host, KINDS[kind]).tolist()), host)
    assert repr(moved(host, KINDS[kind])) == repr(host)


@pytest.mark.parametrize("kind", KINDS)
def test_modules_optimizers_and_data(kind):
    def make(t):
        return moved(t, KINDS[kind])

    net, twin = sg.nn.Linear(2, 1), sg.nn.Linear(2, 1)
    state = {"weight": sg.tensor([[1.0, 2.0]]), "bias": sg.tensor([3.0])}
    net.load_state_dict({name: make(t) for name, t in state.items()})
    twin.load_state_dict(state)
    x, y = sg.tensor([[1.0, 2.0], [3.0, 4.0]]), sg.tensor([[1.0], [2.0]])
    for one, given in ((net, make), (twin, lambda t: t)):
        optimizer = sg.optim.SGD(one.parameters(), lr=given(sg.tensor(0.1)), momentum=0.9)
        sg.nn.MSELoss()(one(given(x)), given(y)).backward()
        sg.nn.utils.clip_grad_norm_(one.parameters(), 1.0)
        optimizer.step()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        assert_same(a.detach(), b.detach())
    vector = sg.nn.utils.parameters_to_vector([make(x), make(y)])
    assert vector.tolist() == [1, 2, 3, 4, 1, 2]
    batches = list(DataLoader(TensorDataset(make(x), make(y)), batch_size=2))
    assert_same(batches[0], [x, y])
    assert_same(default_collate([make(x), make(x)]), sg.stack([x, x]))
    parameters = {"weight": make(sg.ones(1, 2)), "bias": make(sg.zeros(1))}
    assert_same(sg.func.functional_call(net, parameters, make(x)).detach(), x.sum(1, keepdim=True))


@pytest.mark.parametrize("kind", KINDS)
def test_other_libraries(kind):
    def make():
        return moved(sg.tensor([1.0, 2.0]), KINDS[kind])

    np.testing.assert_array_equal(np.asarray(make()), [1, 2])
    assert np.sin(make()).tolist() == pytest.approx(np.sin([1, 2]).tolist())
    assert (np.array([1.0, 1.0], np.float32) + make()).tolist() == [2, 3]
    assert float(make()[0]) == math.fsum(make()[:1]) == 1
    rooted = sg.optimize.root(lambda x: x**2 - 4, make().double())
    assert rooted.x.tolist() == pytest.approx([2, 2])
    double = sg.from_jax(lambda x: 2 * x)
    assert double(make()).tolist() == [2, 4]
    sg.testing.assert_close(make(), sg.tensor([1.0, 2.0]))


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.1}, "AdamW": {"lr": 0.1}, "RMSprop": {"lr": 0.1}, "Adagrad": {"lr": 0.1},
    "Adamax": {"lr": 0.1}, "NAdam": {"lr": 0.1}, "RAdam": {"lr": 0.1}, "Adadelta": {}, "ASGD": {}, "Rprop": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_state_after_compiled_steps_is_saved_and_goes_on(name, tmp_path):
    def trainer():
        w = sg.tensor([1.0, -2.0], requires_grad=True)
        optimizer = getattr(sg.optim, name)([w], **OPTIMIZERS[name])

        def step(x):
            optimizer.zero_grad()
            loss = ((w * x).sin() ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return w, optimizer, step

    x = sg.tensor([0.5, 0.3])
    w, optimizer, step = trainer()
    twin, _, eager = trainer()
    fast = sg.compile(step)
    for _ in range(3):
        fast(x)
        eager(x)
    sg.save({"w": w, "optimizer": optimizer.state_dict(), "grad": w.grad}, tmp_path / "state")
    found = sg.load(tmp_path / "state")
    np.testing.assert_allclose(found["w"].detach().numpy(), twin.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(found["grad"].numpy(), twin.grad.numpy(), rtol=1e-5)
    again, fresh_optimizer, fresh_step = trainer()
    with sg.no_grad():
        again.copy_(found["w"])
    fresh_optimizer.load_state_dict(found["optimizer"])
    for _ in range(2):
        fresh_step(x)
        eager(x)
        fast(x)
    np.testing.assert_allclose(again.detach().numpy(), twin.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(w.detach().numpy(), twin.detach().numpy(), rtol=1e-5)


def test_models_that_train_with_kernels_are_saved(tmp_path):
    from symgrad.training import Model
    from symgrad.training.callbacks import ModelCheckpoint

    x = sg.linspace(-1, 1, 8).reshape(8, 1)
    net = sg.nn.Linear(1, 1)
    model = Model(net, optimizer="adam", loss="mse", jit_compile=True)
    model.fit(x, 2 * x, epochs=2, batch_size=4, verbose=0, callbacks=[ModelCheckpoint(str(tmp_path / "best"), monitor="loss")])
    model.save(tmp_path / "model")
    twin = Model(sg.nn.Linear(1, 1), optimizer="adam", loss="mse")
    twin.load(tmp_path / "model")
    sg.testing.assert_close(twin.net.weight, net.weight)
    assert any(tmp_path.glob("best*"))
