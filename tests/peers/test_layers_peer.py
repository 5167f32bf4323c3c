"""Layers, activations and losses beside PyTorch: the same constructor, the same inputs, the same text, numbers and gradients."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from layer_programs import FIGURES, MODULES, Bench, figures, trained

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]


def arrays(state):
    return {name: value.detach().numpy() for name, value in state.items()}


def same(mine, reference, dtype, text=""):
    # PyTorch has 1/6 in single precision in the gradient of hardsigmoid, whatever the input is
    loose = 2e-5 if dtype == "float32" else 3e-8 if text.startswith("Hardsigmoid") else 1e-11
    assert mine.dtype == reference.dtype
    np.testing.assert_allclose(mine, reference, rtol=loose, atol=loose)


@pytest.mark.parametrize("text", MODULES)
def test_a_module_starts_as_in_pytorch(text):
    mine, reference = (Bench(module).make(text) for module in (sg, torch))
    assert repr(mine) == repr(reference)
    state, expected = arrays(mine.state_dict()), arrays(reference.state_dict())
    assert list(state) == list(expected)
    for name in state:
        np.testing.assert_array_equal(state[name], expected[name], strict=True)
    assert [p.requires_grad for p in mine.parameters()] == [p.requires_grad for p in reference.parameters()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("text", "inputs"), [(text, inputs) for text, several in MODULES.items() for inputs in several])
def test_a_module_computes_and_differentiates_as_in_pytorch(text, inputs, training, dtype):
    layer, outputs, gradients = trained(sg, text, inputs, training, dtype)
    theirs, expected, wanted = trained(torch, text, inputs, training, dtype)
    assert len(outputs) == len(expected)
    for a, b in zip(outputs, expected, strict=True):
        same(a, b, dtype)
    for a, b in zip(gradients, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            same(a, b, dtype, text)
    for a, b in zip(layer.state_dict().values(), theirs.state_dict().values(), strict=True):
        same(a.numpy(), b.numpy(), dtype) if a.is_floating_point() else np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_every_class_is_compared():
    compared = {text.split("(")[0].split(".")[0] for text in MODULES}
    elsewhere = {
        name
        for name in dir(torch.nn)
        if name.startswith(("Module", "Parameter", "Sequential", "RNN", "LSTM", "GRU", "Multihead", "Transf", "Buffer"))
    }
    mine = {name for name in dir(sg.nn) if name[0].isupper() and hasattr(torch.nn, name)}
    assert mine - elsewhere <= compared


@pytest.mark.parametrize("text", MODULES)
def test_the_figures_for_machines_without_pytorch(text):
    shown, *runs = json.loads(FIGURES.read_text())[text]
    assert shown == repr(Bench(torch).make(text))
    for inputs, run in zip(MODULES[text], runs, strict=True):
        wanted = [*figures(torch, text, inputs, True), *figures(torch, text, inputs, False)]
        np.testing.assert_allclose(run, wanted, rtol=1e-9, atol=1e-9)


REFUSALS = """
Conv2d(3, 4, 3, groups=2)
Conv2d(4, 3, 3, groups=2)
Conv2d(2, 2, 3, groups=0)
Conv2d(2, 2, 3, padding='half')
Conv2d(2, 2, 3, stride=2, padding='same')
Conv2d(2, 2, 3, padding_mode='mirror')
Conv2d(2, 2, 3)(x(1, 3, 5, 5))
Conv2d(2, 2, 3)(x(1, 2, 2, 2))
Conv2d(2, 2, 3)(x(5))
Conv1d(2, 2, 3)(x(1, 2, 3, 4))
Conv1d(2, 2, 3, padding=4, padding_mode='reflect')(x(1, 2, 3))
ConvTranspose2d(2, 2, 3, padding_mode='reflect')
ConvTranspose2d(2, 2, 3, stride=2)(x(1, 2, 3, 3), [9, 9])
ConvTranspose1d(2, 2, 3)(x(1, 2, 3), [4, 5])
ConvTranspose2d(2, 2, 3, groups=0)
ConvTranspose1d(2, 2, 3, output_padding=1)(x(1, 2, 3))
Linear(2, 3)(x(4))
Linear(2, 3)(i(3, 2))
Bilinear(0, 2, 3)
Bilinear(2, 3, 4)(x(1, 2), x(1, 2))
Unflatten(1, 3)
Unflatten(1, ('a', 2))
Unflatten(1, (2, 2))(x(1, 5))
MaxPool2d(0)(x(1, 1, 4, 4))
MaxPool2d(2, padding=2)(x(1, 1, 4, 4))
MaxPool2d(9)(x(1, 1, 4, 4))
MaxPool2d(2)(x(4))
AvgPool2d(2, divisor_override=0)(x(1, 1, 4, 4))
AdaptiveAvgPool2d((2, 2, 2))(x(1, 1, 4, 4))
AdaptiveMaxPool2d(2)(x(4))
MaxUnpool2d(2)(x(1, 1, 2, 2), torch.tensor([[[[0, 1], [2, 99]]]]))
MaxUnpool1d(2)(x(1, 1, 2), torch.tensor([[[0, 2]]]), [9])
ReflectionPad1d(3)(x(1, 1, 3))
CircularPad1d(4)(x(1, 1, 3))
ReflectionPad2d(1)(x(3))
BatchNorm1d(3)(x(2, 3, 4, 5))
BatchNorm2d(3)(x(2, 3))
BatchNorm1d(3)(x(1, 3))
BatchNorm1d(3)(x(2, 4))
BatchNorm3d(3)(x(2, 3, 2, 2))
BatchNorm1d(3)(i(3, 2, 3))
InstanceNorm1d(3)(x(3))
InstanceNorm1d(3, affine=True)(x(2, 4, 5))
InstanceNorm2d(3)(x(3, 1, 1))
GroupNorm(3, 4)
GroupNorm(2, 4)(x(2, 6))
GroupNorm(2, 4)(x(4))
LayerNorm(4)(x(2, 3))
RMSNorm(4)(x(2, 3))
LocalResponseNorm(2)(x(2, 3))
Dropout(1.5)
Dropout(-0.1)
Dropout1d()(x(3))
FeatureAlphaDropout()(x(3))
Embedding(3, 2, padding_idx=3)
Embedding(3, 2)(torch.tensor([3]))
Embedding(3, 2)(x(2))
Embedding.from_pretrained(torch.ones(3))
Embedding(3, 2, _weight=torch.ones(2, 2))
EmbeddingBag(3, 2)(i(3, 2, 2), torch.tensor([0]))
EmbeddingBag(3, 2)(i(3, 4))
EmbeddingBag(3, 2, mode='min')(i(3, 2, 2))
EmbeddingBag(3, 2)(i(3, 4), torch.tensor([1, 2]))
EmbeddingBag(3, 2)(i(3, 2, 2), None, p(2, 2))
EmbeddingBag(3, 2)(i(3, 4), torch.tensor([0, 9]))
EmbeddingBag(3, 2, mode='sum')(i(3, 2, 2), None, p(2, 3))
EmbeddingBag(3, 2, padding_idx=5)
Upsample()(x(1, 1, 2))
Upsample(2, 2)(x(1, 1, 2))
Upsample(3, align_corners=True)(x(1, 1, 2))
Upsample(3, mode='linear')(x(1, 1, 2, 2))
Upsample((2, 3))(x(1, 1, 2))
Upsample(3, mode='cubic')(x(1, 1, 2))
PixelShuffle(2)(x(1, 3, 2, 2))
PixelShuffle(0)(x(1, 4, 2, 2))
PixelUnshuffle(2)(x(1, 3, 3, 2))
PixelShuffle(2)(x(3))
ChannelShuffle(4)(x(1, 6, 2))
Unfold(5)(x(1, 1, 2, 2))
Fold(4, 2)(x(1, 5, 9))
Fold(4, 2)(x(1, 4, 8))
Fold(4, 2)(x(4))
Hardtanh(1.0, -1.0)
CELU(0)(x(3))
Softmax2d()(x(2, 2))
GLU()(x(3))
GELU('erf')(x(3))
Softshrink(-1)(x(3))
PReLU(3)(x(2, 2))
Threshold(1)
CrossEntropyLoss()(x(3, 4), i(4, 2))
CrossEntropyLoss()(x(3, 4), torch.tensor([0, 1, 4]))
CrossEntropyLoss(label_smoothing=2.0)(x(3, 4), i(4, 3))
CrossEntropyLoss(ignore_index=1)(x(3, 4), p(3, 4))
CrossEntropyLoss(p(3))(x(3, 4), i(4, 3))
CrossEntropyLoss(reduction='max')(x(3, 4), i(4, 3))
NLLLoss()(x(3, 4), x(3))
NLLLoss()(x(3, 4), i(4, 2))
BCELoss()(x(3) * 9, p(3))
BCELoss()(p(3), p(4))
BCEWithLogitsLoss()(x(3), p(4))
MSELoss(reduction='max')(x(3), x(3))
HuberLoss(delta=0)(x(3), x(3))
SmoothL1Loss(beta=-1)(x(3), x(3))
GaussianNLLLoss()(x(3), x(3), -p(3))
GaussianNLLLoss()(x(3, 2), x(3, 2), p(3, 3))
MultiMarginLoss(3)
MultiMarginLoss(weight=p(2, 2))
MultiMarginLoss()(x(3, 4), torch.tensor([0, 1, 4]))
MultiMarginLoss()(x(3, 4), i(4, 2))
MultiLabelMarginLoss()(x(3, 4), i(4, 3, 3))
MultiLabelMarginLoss()(x(1, 3), torch.tensor([[0, 5, 1]]))
TripletMarginLoss(0)
TripletMarginLoss()(x(2, 3), x(3), x(3))
TripletMarginWithDistanceLoss(margin=-1.0)
MarginRankingLoss()(x(3), x(3), x(3, 1))
CosineEmbeddingLoss()(x(3, 4), x(3, 4), torch.ones(2, 2))
CTCLoss(blank=9)(x(4, 1, 3), i(3, 1, 2), (4,), (2,))
CTCLoss()(x(4, 1, 3), i(3, 1, 2), (5,), (2,))
CTCLoss()(x(4, 1, 3), i(3, 3), (4,), (2,))
CTCLoss()(x(4, 1, 3), i(3, 1, 2), (4, 4), (2,))
ReLU(1, 2)
Conv2d(1)
Linear(2, 3, biases=True)
Conv2d(1, 1, 1)(None)
""".strip()


def refusal(module, script):
    bench = Bench(module)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
        eval(f"nn.{script}", bench.names)
    return type(caught.value)


@pytest.mark.parametrize("script", REFUSALS.splitlines())
def test_what_is_refused(script):
    assert refusal(sg, script) is refusal(torch, script)


def test_the_page_lists_what_is_missing():
    page = Path(__file__).parents[2] / "docs" / "differences-from-pytorch.md"
    listed = set(re.findall(r"`(\w+)`", next(line for line in page.read_text().split("\n- ") if line.startswith("**Layers.**"))))
    missing = {name for name in dir(torch.nn) if name[0].isupper() and not hasattr(sg.nn, name)}
    assert listed - {"nn"} == missing
