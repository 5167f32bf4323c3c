"""Layers, activations and losses: printed form and figures are PyTorch's, for every program in tests/support/layer_programs.py."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from layer_programs import FIGURES, MODULES, Bench, figures

import symgrad as sg
from symgrad import nn

PYTORCH = json.loads(FIGURES.read_text())
RUNS = [(text, inputs, place) for text, several in MODULES.items() for place, inputs in enumerate(several, 1)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "inputs", "place"), RUNS)
def test_value_gradients_and_state(text, inputs, place):
    assert repr(Bench(sg).make(text)) == PYTORCH[text][0]
    mine = [*figures(sg, text, inputs, True), *figures(sg, text, inputs, False)]
    loose = 3e-7 if text.startswith("Hardsigmoid") else 1e-8  # 1/6 is a single float in PyTorch's gradient
    np.testing.assert_allclose(mine, PYTORCH[text][place], rtol=loose, atol=loose)


def test_every_class_has_a_program():
    made = {text.split("(")[0].split(".")[0] for text in MODULES}
    families = (
        nn.activation, nn.convolution, nn.distance, nn.dropout, nn.embedding, nn.linear, nn.loss, nn.normalization, nn.padding, nn.pooling,
        nn.rearranging,
    )  # fmt: skip
    assert {name for family in families for name in family.__all__} == made


# --- what a layer remembers, and how it is told apart from its options


def test_options_are_attributes_and_arguments_by_place_or_name():
    assert vars(nn.ELU(0.5, True)).items() >= {"alpha": 0.5, "inplace": True}.items()
    assert nn.MaxPool2d(3).stride == 3
    assert nn.MaxPool2d(3, 2, dilation=2).dilation == 2
    with pytest.raises(TypeError, match="unexpected keyword argument 'slope'"):
        nn.LeakyReLU(slope=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'kernel_size'"):
        nn.MaxPool2d()


def test_a_layer_with_options_can_be_extended_copied_and_hashed():
    class Scaled(nn.ELU):
        def __init__(self, scale):
            super().__init__(0.5)
            self.inner = nn.Linear(2, 2)
            self.scale = scale

        def forward(self, input):
            return super().forward(input) * self.scale

    layer = Scaled(2.0)
    assert layer(sg.tensor([-20.0, 1.0])).tolist() == [-1.0, 2.0]
    assert repr(layer) == "Scaled(\n  alpha=0.5\n  (inner): Linear(in_features=2, out_features=2, bias=True)\n)"
    assert len({layer, copy.deepcopy(layer)}) == 2
    assert nn.ReLU() != nn.ReLU()


def test_a_batch_of_nothing():
    for layer, shape in ((nn.Conv2d(2, 3, 3), (0, 2, 5, 5)), (nn.ConvTranspose1d(2, 3, 2), (0, 2, 4)), (nn.Linear(2, 3), (0, 2))):
        x = sg.ones(shape, requires_grad=True)
        out = layer(x)
        out.sum().backward()
        assert out.shape[0] == 0
        assert x.grad.shape == x.shape
        assert layer.weight.grad.abs().sum().item() == 0
        assert layer.bias.grad.tolist() == [0, 0, 0]


def test_hardtanh_has_older_names():
    with pytest.warns(FutureWarning, match="keyword argument `min_value` is deprecated and renamed to `min_val`"):
        assert nn.Hardtanh(min_value=-2.0).min_val == -2.0


def test_running_statistics():
    x = sg.tensor([[1.0, 2.0], [3.0, 6.0]])
    norm = nn.BatchNorm1d(2, momentum=0.25)
    norm(x)
    assert norm.running_mean.tolist() == [0.5, 1.0]
    assert norm.running_var.tolist() == pytest.approx([1.25, 2.75], rel=1e-6)
    assert norm.num_batches_tracked.item() == 1
    norm.eval()(x)
    assert norm.running_mean.tolist() == [0.5, 1.0]
    norm.reset_running_stats()
    assert [norm.running_mean.tolist(), norm.running_var.tolist(), norm.num_batches_tracked.item()] == [[0, 0], [1, 1], 0]


def test_files_from_before_batches_were_counted():
    net = nn.Sequential(nn.BatchNorm1d(2))
    net(sg.tensor([[1.0, 2.0], [3.0, 6.0]]))
    old = {name: value + 1 for name, value in net.state_dict().items() if "num_batches" not in name}
    assert repr(net.load_state_dict(old)) == "<All keys matched successfully>"
    assert net[0].num_batches_tracked.item() == 1
    assert net[0].weight.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0\.running_mean"'):
        net.load_state_dict({name: value for name, value in old.items() if "mean" not in name})


def test_without_momentum_the_statistics_are_the_mean_of_all_batches():
    norm = nn.BatchNorm1d(1, momentum=None)
    for middle in (1.0, 2.0, 6.0):
        norm(sg.tensor([[middle - 1], [middle + 1]]))
    assert norm.running_mean.item() == pytest.approx(3)
    assert norm.running_var.item() == pytest.approx(2)


def test_weights_of_a_loss_are_its_state():
    loss = nn.CrossEntropyLoss(weight=sg.tensor([1.0, 3.0]))
    assert list(loss.state_dict()) == ["weight"]
    assert list(loss.parameters()) == []
    assert loss.double().weight.dtype == sg.float64
    value = loss(sg.zeros(2, 2, dtype=sg.float64), sg.tensor([0, 1]))
    assert value.item() == pytest.approx(np.log(2))


def test_device_and_type_reach_every_parameter_and_buffer():
    makers = (
        lambda **k: nn.Linear(2, 3, **k), lambda **k: nn.Bilinear(2, 2, 2, **k), lambda **k: nn.Conv2d(1, 1, 1, **k),
        lambda **k: nn.ConvTranspose1d(1, 1, 1, **k), lambda **k: nn.BatchNorm1d(2, **k), lambda **k: nn.LayerNorm(2, **k),
        lambda **k: nn.GroupNorm(1, 2, **k), lambda **k: nn.RMSNorm(2, **k), lambda **k: nn.InstanceNorm1d(2, affine=True, **k),
        lambda **k: nn.Embedding(2, 2, **k), lambda **k: nn.EmbeddingBag(2, 2, **k), lambda **k: nn.PReLU(**k),
    )  # fmt: skip
    for make in makers:
        layer = make(dtype=sg.float64, device="cpu")
        tensors = [t for t in layer.state_dict().values() if t.is_floating_point()]
        assert tensors
        assert {t.dtype for t in tensors} == {sg.float64}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(2, 2, 3, padding="half"), ValueError, "Invalid padding string 'half'"),
        (lambda: nn.Conv2d(2, 2, 3, 2, "same"), ValueError, "padding='same' is not supported for strided convolutions"),
        (lambda: nn.Conv1d(2, 2, 3, padding_mode="mirror"), ValueError, "padding_mode must be one of"),
        (lambda: nn.ConvTranspose2d(2, 2, 3, padding_mode="reflect"), ValueError, 'Only "zeros" padding mode is supported'),
        (lambda: nn.ConvTranspose1d(1, 1, 3, 2)(sg.ones(1, 1, 4), [12]), ValueError, r"valid sizes range from \[9\] to \[10\]"),
        (lambda: nn.BatchNorm2d(3)(sg.ones(2, 3)), ValueError, r"expected 4D input \(got 2D input\)"),
        (lambda: nn.BatchNorm1d(3)(sg.ones(2, 3, 4, 5)), ValueError, r"expected 2D or 3D input \(got 4D input\)"),
        (lambda: nn.BatchNorm1d(3)(sg.ones(1, 3)), ValueError, "Expected more than 1 value per channel when training"),
        (lambda: nn.InstanceNorm1d(3, affine=True)(sg.ones(2, 4, 5)), ValueError, "to match num_features \\(3\\), but got: 4"),
        (lambda: nn.GroupNorm(3, 4), ValueError, r"num_channels \(4\) must be divisible by num_groups \(3\)"),
        (lambda: nn.Dropout(1.5), ValueError, "dropout probability has to be between 0 and 1, but got 1.5"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), AssertionError, "Padding_idx must be within num_embeddings"),
        (lambda: nn.Embedding(3, 2)(sg.tensor([3])), IndexError, "index out of range in self"),
        (lambda: nn.Embedding.from_pretrained(sg.ones(3)), AssertionError, "expected to be 2-dimensional"),
        (lambda: nn.EmbeddingBag(3, 2)(sg.tensor([1])), ValueError, "offsets has to be a 1D Tensor but got None"),
        (lambda: nn.Unflatten(1, ("a", 2)), TypeError, "found element of type str at pos 0"),
        (lambda: nn.Hardtanh(1.0, -1.0), AssertionError, r"max_val \(-1.0\) must be greater than min_val \(1.0\)"),
        (lambda: nn.Softmax2d()(sg.ones(2, 2)), ValueError, "expected input to be 3D or 4D, got 2D"),
        (lambda: nn.MaxUnpool1d(2)(sg.ones(1, 1, 2), sg.tensor([[[0, 2]]]), [9]), ValueError, "dim 0 must be between 2 and 6"),
        (lambda: nn.Upsample()(sg.ones(1, 1, 2)), ValueError, "either size or scale_factor should be defined"),
        (lambda: nn.PixelShuffle(2)(sg.ones(1, 3, 2, 2)), RuntimeError, "divisible by the square of upscale_factor"),
        (lambda: nn.Fold(4, 2)(sg.ones(1, 4, 8)), RuntimeError, "expected size of input's dimension 2 to match"),
        (lambda: nn.MultiMarginLoss(3), ValueError, "only p == 1 and p == 2 supported"),
        (lambda: nn.MSELoss(reduction="max")(sg.ones(2), sg.ones(2)), ValueError, "max is not a valid value for reduction"),
        (lambda: nn.CrossEntropyLoss(ignore_index=1)(sg.ones(1, 2), sg.ones(1, 2)), RuntimeError, "ignore_index is not supported"),
        (lambda: nn.TripletMarginLoss(0), ValueError, "expected margin to be greater than 0, got 0"),
        (lambda: nn.CTCLoss()(sg.ones(4, 1, 3), sg.ones(1, 2).long(), (5,), (2,)), RuntimeError, "value at most 4, but got value 5"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


# --- one program of many layers


def test_a_network_of_layers_is_compiled():
    sg.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.GroupNorm(2, 4),
        nn.ConvTranspose2d(4, 2, 2, 2), nn.Hardswish(), nn.AdaptiveAvgPool2d(2), nn.Upsample(3), nn.Flatten(), nn.Linear(18, 6),
        nn.LayerNorm(6), nn.Dropout(0.3),
    ).double().eval()  # fmt: skip
    loss, x, y = nn.CrossEntropyLoss(label_smoothing=0.1), sg.randn(3, 1, 6, 6, dtype=sg.float64), sg.tensor([1, 0, 5])
    expected = loss(net(x), y)
    expected.backward()
    value, gradients = sg.compile(lambda x: loss(net(x), y)).value_and_grad(x)
    np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-10)
    for mine, parameter in zip(gradients, net.parameters(), strict=True):
        np.testing.assert_allclose(mine.numpy(), parameter.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_the_formula_of_a_layer_and_a_loss():
    sg.manual_seed(0)
    net, loss = nn.Sequential(nn.Linear(2, 2), nn.Softplus(), nn.Linear(2, 1, bias=False)).double(), nn.MSELoss()
    x, y = sg.tensor([[0.5, -1.0]], dtype=sg.float64), sg.tensor([[2.0]], dtype=sg.float64)
    leaf = x.clone().requires_grad_()
    loss(net(leaf), y).backward()
    derivation = sg.derive(lambda x: loss(net(x), y), wrt="x")(x)
    assert "softplus" in str(derivation)
    np.testing.assert_allclose(derivation(x)[1].numpy(), leaf.grad.numpy(), rtol=1e-12)
