"""Options of layers, losses and functions that are rarely given: their numbers by hand, their limits, types and devices."""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.nn import functional as F

# --- losses

x = sg.tensor([[0.3, -1.2, 0.8], [1.5, 0.1, -0.4]])
y = sg.tensor([[0.6, 0.9, 0.2], [0.5, 0.3, 0.7]])
signs, classes = sg.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]]), sg.tensor([2, 0])

LOSSES = {
    "l1_loss": (x, y), "mse_loss": (x, y), "smooth_l1_loss": (x, y), "binary_cross_entropy": (y, y),
    "binary_cross_entropy_with_logits": (x, y), "nll_loss": (x, classes), "cross_entropy": (x, classes), "kl_div": (x, y),
    "poisson_nll_loss": (x, y), "hinge_embedding_loss": (x, signs), "margin_ranking_loss": (x, y, signs), "soft_margin_loss": (x, signs),
    "triplet_margin_loss": (x, y, signs), "cosine_embedding_loss": (x, y, signs[0, :2]), "multi_margin_loss": (x, classes),
    "multilabel_margin_loss": (x, sg.tensor([[0, 1, -1], [2, -1, 0]])), "multilabel_soft_margin_loss": (x, y),
}  # fmt: skip
MODULES = {
    "binary_cross_entropy": nn.BCELoss, "binary_cross_entropy_with_logits": nn.BCEWithLogitsLoss, "nll_loss": nn.NLLLoss,
    "cross_entropy": nn.CrossEntropyLoss, "kl_div": nn.KLDivLoss, "poisson_nll_loss": nn.PoissonNLLLoss,
    "multilabel_margin_loss": nn.MultiLabelMarginLoss, "multilabel_soft_margin_loss": nn.MultiLabelSoftMarginLoss, "l1_loss": nn.L1Loss,
    "mse_loss": nn.MSELoss, "smooth_l1_loss": nn.SmoothL1Loss,
}  # fmt: skip
FLAGS = [  # size_average, reduce, and what they mean
    (True, None, "mean"), (False, None, "sum"), (None, True, "mean"), (None, False, "none"), (True, True, "mean"), (False, True, "sum"),
    (True, False, "none"), (False, False, "none"),
]  # fmt: skip


def module_of(name):
    return MODULES.get(name) or getattr(nn, "".join(part.capitalize() for part in name.split("_")))


@pytest.mark.parametrize("name", LOSSES)
def test_old_flags_of_losses(name):
    loss, inputs = getattr(F, name), LOSSES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of kl_div
        values = {reduction: loss(*inputs, reduction=reduction) for reduction in ("none", "mean", "sum")}
    each = values["none"].numpy()
    assert values["sum"].item() == pytest.approx(each.sum(), rel=1e-5)
    assert values["mean"].item() == pytest.approx(each.mean(), rel=1e-5)
    for size_average, reduce, reduction in FLAGS:
        other = "none" if reduction == "mean" else "mean"
        seen = loss(*inputs, size_average=size_average, reduce=reduce, reduction=other)
        assert seen.tolist() == values[reduction].tolist()
        module = module_of(name)(size_average=size_average, reduce=reduce, reduction=other)
        assert module.reduction == reduction


@pytest.mark.parametrize("name", [*LOSSES, "huber_loss", "triplet_margin_with_distance_loss", "gaussian_nll_loss"])
def test_losses_refuse_other_reductions(name):
    inputs = LOSSES.get(name, (x, y, y) if name != "huber_loss" else (x, y))
    with pytest.raises(ValueError, match="is not a valid value for reduction"):
        getattr(F, name)(*inputs, reduction="median")


def test_weighted_losses_by_hand():
    weight = sg.tensor([[1.0, 2.0, 0.0], [3.0, 1.0, 1.0]])
    a, b, w = x.numpy().astype(float), y.numpy().astype(float), weight.numpy()
    for loss, each in ((F.mse_loss, (a - b) ** 2), (F.l1_loss, abs(a - b))):
        np.testing.assert_allclose(loss(x, y, reduction="none", weight=weight).numpy(), each * w, rtol=1e-5)
        assert loss(x, y, reduction="sum", weight=weight).item() == pytest.approx((each * w).sum(), rel=1e-5)
        assert loss(x, y, weight=weight).item() == pytest.approx((each * w).sum() / w.sum(), rel=1e-5)
    distance = abs(a - b)
    each = np.where(distance < 0.5, distance**2 / 2, 0.5 * (distance - 0.25)) * w
    assert F.huber_loss(x, y, delta=0.5, weight=weight).item() == pytest.approx(each.mean(), rel=1e-5)
    assert F.huber_loss(x, y, "sum", 0.5, weight).item() == pytest.approx(each.sum(), rel=1e-5)


def test_limits_of_losses():
    assert F.smooth_l1_loss(x, y, beta=0).item() == F.l1_loss(x, y).item()
    assert F.smooth_l1_loss(x, y, reduction="sum", beta=0.0).item() == F.l1_loss(x, y, reduction="sum").item()
    assert F.cross_entropy(x, classes, label_smoothing=1.0).item() == pytest.approx(-F.log_softmax(x, 1).mean().item())
    for refused in (lambda: F.triplet_margin_loss(x, x, x, margin=0), lambda: F.triplet_margin_with_distance_loss(x, x, x, margin=0),
                    lambda: nn.TripletMarginLoss(0), lambda: nn.TripletMarginWithDistanceLoss(margin=0)):  # fmt: skip
        with pytest.raises(ValueError, match="margin"):
            refused()
    with pytest.raises(RuntimeError, match="non-positive values for delta, got 0"):
        F.huber_loss(x, y, delta=0)
    with pytest.raises(RuntimeError, match="ignore_index is not supported for floating point target, got 0"):
        F.cross_entropy(x, y, ignore_index=0)


def test_targets_at_the_ends_of_the_probabilities():
    ends = sg.tensor([0.0, 1.0])
    assert F.binary_cross_entropy(ends, ends).item() == 0
    for outside in (-1e-3, 1.001):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            F.binary_cross_entropy(sg.tensor([0.5, outside]), ends)


def test_counts_of_poisson_by_hand():
    count, rate = sg.tensor([0.0, 1.0, 2.0, 5.0]), sg.tensor([0.5, 1.0, 2.0, 4.0])
    n = np.array([0.0, 1.0, 2.0, 5.0])
    stirling = np.where(n > 1, n * np.log(np.maximum(n, 1)) - n + 0.5 * np.log(2 * math.pi * np.maximum(n, 1)), 0)
    each = rate.numpy() - n * np.log(rate.numpy() + 0.25)
    seen = F.poisson_nll_loss(rate, count, log_input=False, eps=0.25, reduction="none")
    np.testing.assert_allclose(seen.numpy(), each, rtol=1e-5)
    seen = F.poisson_nll_loss(rate, count, log_input=False, full=True, eps=0.25, reduction="none")
    np.testing.assert_allclose(seen.numpy(), each + stirling, rtol=1e-5)


def test_variances_of_a_gaussian():
    def each(v):
        return 0.5 * (np.log(v) + (x.numpy() - y.numpy()) ** 2 / v)

    by_row = sg.tensor([2.0, 3.0])
    for var, wide in ((2.0, 2.0), (by_row, by_row.numpy()[:, None]), (by_row.unsqueeze(1), by_row.numpy()[:, None])):
        np.testing.assert_allclose(F.gaussian_nll_loss(x, y, var, reduction="none").numpy(), each(wide), rtol=1e-5)
    full = F.gaussian_nll_loss(x, y, 2.0, full=True, reduction="none")
    np.testing.assert_allclose(full.numpy(), each(2.0) + 0.5 * math.log(2 * math.pi), rtol=1e-5)
    assert F.gaussian_nll_loss(x, x, 0.0, eps=0.5).item() == pytest.approx(0.5 * math.log(0.5))
    with pytest.raises(ValueError, match="var is of incorrect size"):
        F.gaussian_nll_loss(x, y, sg.ones(1, 2))


# --- dropout


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"])
def test_dropout_of_nothing_and_of_everything(name):
    function = getattr(F, name)
    data = sg.ones({"dropout1d": (2, 3, 4), "dropout2d": (2, 3, 4, 2), "dropout3d": (2, 3, 2, 2, 2)}.get(name, (2, 3, 4)))
    assert function(data, 0.0, True) is data
    assert function(data, 0.9, False) is data
    assert function(data, 1.0, True).abs().sum().item() == 0
    assert data.sum().item() == data.numel()
    assert function(data, 1.0, True, inplace=True) is data
    assert data.abs().sum().item() == 0
    for p in (-0.001, 1.001):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            function(data, p)


@pytest.mark.parametrize(
    ("name", "shape", "of_one_draw"),
    [
        ("dropout1d", (40, 5), (1,)), ("dropout1d", (8, 5, 6), (2,)), ("dropout2d", (8, 5, 3, 2), (2, 3)),
        ("dropout3d", (40, 2, 3, 2), (1, 2, 3)), ("dropout3d", (8, 5, 2, 3, 2), (2, 3, 4)), ("feature_alpha_dropout", (8, 5, 3), (2,)),
    ],
)  # fmt: skip
def test_whole_channels_are_dropped(name, shape, of_one_draw):
    sg.manual_seed(0)
    seen = getattr(F, name)(sg.ones(shape), 0.5, True)
    first = seen.amin(of_one_draw, keepdim=True)
    assert (seen == first).all()
    kept = (first == first.max()).float()
    assert 0.2 < kept.mean().item() < 0.8
    if name != "feature_alpha_dropout":
        assert sorted(set(first.reshape(-1).tolist())) == [0.0, 2.0]


@pytest.mark.parametrize("rank", [2, 5])
def test_feature_dropout_of_other_ranks_is_warned_of(rank):
    with pytest.warns(UserWarning, match=f"dropout2d: Received a {rank}-D input to dropout2d"):
        F.dropout2d(sg.ones((2,) * rank))


# --- embeddings, classes, products


def test_rows_that_are_too_long_are_cut_in_place():
    weight = sg.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0], [1.0, 0.0]], dtype=sg.float64)
    seen = F.embedding(sg.tensor([0, 1, 3]), weight, max_norm=1.0)
    np.testing.assert_allclose(seen.numpy(), [[0.6, 0.8], [0.3, 0.4], [1.0, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(weight.numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0], [1.0, 0.0]], rtol=1e-6)
    F.embedding(sg.tensor([2]), weight, max_norm=7.0, norm_type=1.0)
    np.testing.assert_allclose(weight[2].numpy(), [3.0, 4.0], rtol=1e-6)


@pytest.mark.parametrize("padding", [1, -2])
def test_padding_has_no_gradient_and_frequent_rows_a_smaller_one(padding):
    weight = sg.ones(3, 2, requires_grad=True)
    F.embedding(sg.tensor([0, 0, 1, 2]), weight, padding_idx=padding, scale_grad_by_freq=True).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_classes_as_ones():
    assert F.one_hot(sg.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(sg.tensor([0, 0])).tolist() == [[1], [1]]
    assert F.one_hot(sg.tensor([0]), 1).tolist() == [[1]]
    assert F.one_hot(sg.tensor(1), 3).tolist() == [0, 1, 0]
    assert F.one_hot(sg.zeros(0, dtype=sg.int64), 2).shape == (0, 2)
    for n in (0, -1):
        with pytest.raises(RuntimeError, match="Can not infer total number of classes"):
            F.one_hot(sg.zeros(0, dtype=sg.int64), n)
    with pytest.raises(RuntimeError, match="must be smaller than num_classes"):
        F.one_hot(sg.tensor([1]), 1)


def test_a_linear_map_to_a_number():
    data, weight = sg.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]]), sg.tensor([2.0, 1.0])
    assert F.linear(data, weight).tolist() == [4, 11, 1]
    assert F.linear(data[0], weight, sg.tensor(0.5)).item() == 4.5


# --- transposed convolutions


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_sizes_that_a_stride_leaves_open(stride):
    layer = nn.ConvTranspose2d(2, 3, (3, 2), stride=(stride, 2), padding=(1, 0), dilation=(2, 1))
    data = sg.ones(1, 2, 4, 5)
    least = ((4 - 1) * stride - 2 + 2 * (3 - 1) + 1, (5 - 1) * 2 + 1 + 1)
    for i in range(stride):
        for j in range(2):
            size = (least[0] + i, least[1] + j)
            assert layer(data, size).shape == (1, 3, *size)
            assert layer(data[0], (3, *size)).shape == (3, *size)
    for size in ((least[0] - 1, least[1]), (least[0] + stride, least[1]), (least[0], least[1] + 2)):
        with pytest.raises(ValueError, match="requested an output size of"):
            layer(data, size)
    with pytest.raises(ValueError, match="output_size must have 2 or 4 elements"):
        layer(data, (9, 9, 9))


# --- types and devices

ARGUMENTS = {
    "PReLU": (), "MultiheadAttention": (4, 2), "GRUCell": (2, 3), "LSTMCell": (2, 3), "RNNCell": (2, 3), "RNNCellBase": (2, 3, True, 4),
    "Conv1d": (2, 3, 2), "Conv2d": (2, 3, 2), "Conv3d": (2, 3, 2), "ConvTranspose1d": (2, 3, 2), "ConvTranspose2d": (2, 3, 2),
    "ConvTranspose3d": (2, 3, 2), "Embedding": (4, 3), "EmbeddingBag": (4, 3), "Bilinear": (2, 3, 4), "Linear": (2, 3), "BatchNorm1d": (3,),
    "BatchNorm2d": (3,), "BatchNorm3d": (3,), "GroupNorm": (2, 4), "InstanceNorm1d": (3, 1e-5, 0.1, True, True),
    "InstanceNorm2d": (3, 1e-5, 0.1, True, True), "InstanceNorm3d": (3, 1e-5, 0.1, True, True), "LayerNorm": (3,), "RMSNorm": (3,),
    "GRU": (2, 3), "LSTM": (2, 3), "RNN": (2, 3), "RNNBase": ("LSTM", 2, 3), "Transformer": (4, 2, 1, 1, 8),
    "TransformerDecoderLayer": (4, 2, 8), "TransformerEncoderLayer": (4, 2, 8),
}  # fmt: skip


def test_all_layers_with_a_device_are_listed():
    classes = [c for c in vars(nn).values() if isinstance(c, type) and issubclass(c, nn.Module)]
    assert {c.__name__ for c in classes if "device" in inspect.signature(c.__init__).parameters} == {*ARGUMENTS}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_parameter_has_the_type_and_device_that_is_asked_for(name):
    layer = getattr(nn, name)(*ARGUMENTS[name], dtype=sg.float64)
    tensors = [t for t in (*layer.parameters(), *layer.buffers()) if t.is_floating_point()]
    assert {t.dtype for t in tensors} == {sg.float64}
    assert all(p.requires_grad for p in layer.parameters())
    with pytest.raises(RuntimeError, match="nowhere"):
        getattr(nn, name)(*ARGUMENTS[name], device="nowhere")


@pytest.mark.parametrize(
    "convert",
    [
        lambda layer: layer.to(sg.float64), lambda layer: layer.to("cpu", sg.float64), lambda layer: layer.to(dtype=sg.float64),
        lambda layer: layer.to(sg.ones(1, dtype=sg.float64)), lambda layer: layer.to(tensor=sg.ones(1, dtype=sg.float64)),
        lambda layer: layer.to(device="cpu", dtype=sg.float64), lambda layer: layer.type(sg.float64), lambda layer: layer.double(),
    ],
)  # fmt: skip
def test_ways_to_convert(convert):
    layer = nn.Linear(2, 3)
    assert convert(layer) is layer
    assert {p.dtype for p in layer.parameters()} == {sg.float64}
    assert layer.to("cpu").cpu().weight.dtype is sg.float64


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_seed_makes_the_same_layer(name):
    layers = []
    for _ in range(2):
        sg.manual_seed(3)
        layers.append(getattr(nn, name)(*ARGUMENTS[name]))
    pairs = zip(layers[0].parameters(), layers[1].parameters(), strict=True)
    assert all(np.array_equal(a.detach().numpy(), b.detach().numpy()) for a, b in pairs)
    if hasattr(layers[0], "reset_parameters"):
        first = [p.tolist() for p in layers[0].parameters()]
        with sg.no_grad():
            for p in layers[0].parameters():
                p.fill_(99.0)
        sg.manual_seed(3)
        layers[0].reset_parameters()
        assert [p.tolist() for p in layers[0].parameters()] == first


# --- a single example


SINGLE = {  # and the shape of one example
    "Conv1d(2, 3, 2)": (2, 5), "Conv2d(2, 3, 2)": (2, 5, 4), "Conv3d(2, 3, 2)": (2, 3, 4, 5), "ConvTranspose1d(2, 3, 2)": (2, 5),
    "ConvTranspose2d(2, 3, 2, 2, output_padding=1)": (2, 5, 4), "ConvTranspose3d(2, 3, 2)": (2, 3, 2, 2), "MaxPool1d(2)": (2, 6),
    "MaxPool2d(2)": (2, 6, 4), "MaxPool3d(2)": (2, 4, 4, 6), "AvgPool1d(2)": (2, 6), "AvgPool2d(2)": (2, 6, 4),
    "AvgPool3d(2)": (2, 4, 4, 6),
    "LPPool1d(2, 2)": (2, 6), "LPPool2d(2, 2)": (2, 6, 4), "AdaptiveAvgPool1d(2)": (2, 5), "AdaptiveAvgPool2d(2)": (2, 5, 4),
    "AdaptiveAvgPool3d(2)": (2, 3, 4, 5), "AdaptiveMaxPool1d(2)": (2, 5), "AdaptiveMaxPool2d(2)": (2, 5, 4),
    "AdaptiveMaxPool3d(2)": (2, 3, 4, 5), "Unfold(2)": (2, 5, 4), "Fold((3, 4), 2)": (8, 6), "InstanceNorm1d(2)": (2, 5),
    "InstanceNorm2d(2)": (2, 5, 4), "ReflectionPad1d(1)": (2, 5), "ReplicationPad2d(1)": (2, 5, 4), "CircularPad3d(1)": (2, 3, 4, 5),
    "MaxPool2d(2, return_indices=True)": (2, 6, 4), "AdaptiveMaxPool2d(2, return_indices=True)": (2, 5, 4),
}  # fmt: skip


@pytest.mark.parametrize("text", SINGLE)
def test_one_example_is_a_batch_of_one_without_its_dimension(text):
    sg.manual_seed(0)
    layer, data = eval(f"nn.{text}", {"nn": nn}), sg.randn(SINGLE[text])
    alone, batch = layer(data), layer(data.unsqueeze(0))
    several = isinstance(alone, tuple)
    for one, many in zip(alone if several else [alone], batch if several else [batch], strict=True):
        assert many.shape == (1, *one.shape)
        np.testing.assert_allclose(one.detach().numpy(), many[0].detach().numpy(), rtol=1e-6)


def test_one_sequence_of_labels():
    log_probs = sg.randn(6, 4).log_softmax(1)
    for reduction in ("none", "sum", "mean"):
        alone = F.ctc_loss(log_probs, sg.tensor([1, 2]), sg.tensor(6), sg.tensor(2), reduction=reduction)
        batch = F.ctc_loss(log_probs.unsqueeze(1), sg.tensor([[1, 2]]), [6], [2], reduction=reduction)
        assert alone.shape == ()
        assert alone.item() == pytest.approx(batch.sum().item())


def test_an_output_padding_of_a_stride_holds_the_bias():
    data, weight, bias = sg.ones(1, 1, 2), sg.ones(1, 1, 1), sg.tensor([0.5])
    assert F.conv_transpose1d(data, weight, bias, stride=1, dilation=2, output_padding=1).tolist() == [[[1.5, 1.5, 0.5]]]
    assert F.conv_transpose1d(data, weight, None, stride=1, dilation=2, output_padding=1).tolist() == [[[1, 1, 0]]]


# --- the functions at the top


def test_norms_at_the_top_take_weights_first():
    data = sg.randn(4, 6, 3)
    weight, bias, mean, var = (sg.arange(6.0) + n for n in range(1, 5))
    wanted = F.batch_norm(data, mean, var, weight, bias, False, 0.1, 0.25)
    assert sg.batch_norm(data, weight, bias, mean, var, False, 0.1, 0.25).tolist() == wanted.tolist()
    wanted = F.instance_norm(data, mean, var, weight, bias, False, 0.1, 0.25)
    assert sg.instance_norm(data, weight, bias, mean, var, False, 0.1, 0.25).tolist() == wanted.tolist()
    assert sg.group_norm(data, 3, weight, bias, 0.25).tolist() == F.group_norm(data, 3, weight, bias, 0.25).tolist()
    assert sg.layer_norm(data, [3], weight[:3], bias[:3], 0.25).tolist() == F.layer_norm(data, [3], weight[:3], bias[:3], 0.25).tolist()
    rows = sg.arange(6.0).reshape(3, 2).requires_grad_()
    assert sg.embedding(rows, sg.tensor([2, 0])).tolist() == [[4, 5], [0, 1]]
    sg.embedding(rows, sg.tensor([2, 1]), 1).sum().backward()
    assert rows.grad.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert sg.alpha_dropout(data, 0.5, False) is data


# --- generators


@pytest.mark.parametrize(
    "fill",
    [
        lambda t, g: nn.init.uniform_(t, 1.0, 2.0, g), lambda t, g: nn.init.normal_(t, 1.0, 2.0, g),
        lambda t, g: nn.init.trunc_normal_(t, generator=g), lambda t, g: nn.init.trunc_normal_(t, a=1.0, b=1.5, generator=g),
        lambda t, g: nn.init.xavier_uniform_(t, generator=g), lambda t, g: nn.init.xavier_normal_(t, generator=g),
        lambda t, g: nn.init.kaiming_uniform_(t, generator=g), lambda t, g: nn.init.kaiming_normal_(t, generator=g),
        lambda t, g: nn.init.orthogonal_(t, generator=g),
    ],
)  # fmt: skip
def test_a_generator_is_the_only_source_of_draws(fill):
    sg.manual_seed(1)
    before = sg.get_rng_state()
    seen = []
    for seed in (5, 5, 6):
        tensor = sg.zeros(4, 5)
        assert fill(tensor, sg.Generator().manual_seed(seed)) is tensor
        seen.append(tensor.tolist())
    assert seen[0] == seen[1] != seen[2]
    assert sg.get_rng_state().tolist() == before.tolist()


# --- states of recurrent layers


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_states_have_the_rank_of_the_input(kind):
    layer = kind(2, 3)
    which = "hx and cx" if kind is nn.LSTM else "hx"
    for data, state, words in ((sg.ones(4, 1, 2), sg.ones(1, 3), "batched 3-D"), (sg.ones(4, 2), sg.ones(1, 1, 3), "unbatched 2-D")):
        given = (state, state) if kind is nn.LSTM else state
        got = f"\\({state.ndim}-D, {state.ndim}-D\\) tensors" if kind is nn.LSTM else f"{state.ndim}-D tensor"
        with pytest.raises(RuntimeError, match=f"For {words} input, {which} should also be {5 - state.ndim}-D but got {got}"):
            layer(data, given)
