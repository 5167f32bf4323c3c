"""Programs that make and call every layer, activation and loss: PyTorch runs them and so does symgrad.

`layer_figures.json` has the printed form and the figures of PyTorch, so that they are compared where there is none: run this file with
PyTorch to write it, for programs that are new.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

FIGURES = Path(__file__).with_name("layer_figures.json")

# Each layer is made by evaluating its text in both libraries and called with each of its inputs:
# x(shape) are normal numbers that want a gradient, p(shape) lie in (0, 1), i(high, shape) are indices.

ACTIVATIONS = {
    "ReLU()": ["x(3, 4)"],
    "ReLU6()": ["x(3, 4) * 4"],
    "LeakyReLU()": ["x(3, 4)"],
    "LeakyReLU(0.3)": ["x(3, 4)"],
    "PReLU()": ["x(3, 4)", "x(5)"],
    "PReLU(4, 0.1)": ["x(3, 4)", "x(2, 4, 3)"],
    "RReLU()": ["x(3, 4)"],
    "RReLU(0.2, 0.5)": ["x(50, 40)"],
    "ELU()": ["x(3, 4)"],
    "ELU(0.5)": ["x(3, 4)"],
    "CELU(0.5)": ["x(3, 4)"],
    "SELU()": ["x(3, 4)"],
    "GELU()": ["x(3, 4)"],
    "GELU('tanh')": ["x(3, 4)"],
    "GLU()": ["x(3, 4)"],
    "GLU(0)": ["x(4, 3)"],
    "SiLU()": ["x(3, 4)"],
    "Mish()": ["x(3, 4)"],
    "Hardtanh()": ["x(3, 4)"],
    "Hardtanh(-0.5, 2)": ["x(3, 4)"],
    "Hardswish()": ["x(3, 4) * 3"],
    "Hardsigmoid()": ["x(3, 4) * 3"],
    "Hardshrink()": ["x(3, 4)"],
    "Hardshrink(1)": ["x(3, 4)"],
    "Softshrink(0.2)": ["x(3, 4)"],
    "Tanhshrink()": ["x(3, 4)"],
    "Softplus()": ["x(3, 4)"],
    "Softplus(2, 1.5)": ["x(3, 4)"],
    "Softsign()": ["x(3, 4)"],
    "Softmax(1)": ["x(3, 4)"],
    "Softmax()": ["x(3, 4)"],
    "Softmin(0)": ["x(3, 4)"],
    "LogSoftmax(-1)": ["x(3, 4)"],
    "Softmax2d()": ["x(2, 3, 4, 5)", "x(3, 4, 5)"],
    "Sigmoid()": ["x(3, 4)"],
    "LogSigmoid()": ["x(3, 4)"],
    "Tanh()": ["x(3, 4)"],
    "Threshold(0.1, 20)": ["x(3, 4)"],
    **{
        f"{name}(inplace=True)": ["x(3, 4) * 2"]
        for name in ("ReLU", "ReLU6", "LeakyReLU", "RReLU", "ELU", "CELU", "SELU", "SiLU", "Mish", "Hardtanh", "Hardswish", "Hardsigmoid")
    },
    "Threshold(0.1, 20, inplace=True)": ["x(3, 4) * 2"],
    "ELU(0.3, True)": ["x(3, 4) * 2"],
}

LAYERS = {
    "Identity(3, anything=4)": ["x(2, 3)"],
    "Flatten()": ["x(2, 3, 4)"],
    "Flatten(0, 1)": ["x(2, 3, 4)"],
    "Unflatten(1, (2, 3))": ["x(4, 6)"],
    "Unflatten(-1, [2, 3])": ["x(4, 6)"],
    "Linear(3, 4)": ["x(2, 3)", "x(3)", "x(2, 5, 3)"],
    "Linear(3, 4, bias=False)": ["x(2, 3)"],
    "Linear(20, 30)": ["x(2, 20)"],
    "Bilinear(3, 4, 5)": ["x(2, 3), x(2, 4)", "x(3), x(4)", "x(2, 6, 3), x(2, 6, 4)"],
    "Bilinear(3, 4, 5, bias=False)": ["x(2, 3), x(2, 4)"],
    "Conv1d(3, 4, 3)": ["x(2, 3, 8)", "x(3, 8)"],
    "Conv1d(4, 6, 3, 2, 1, 2, 2, False)": ["x(2, 4, 9)"],
    "Conv1d(3, 4, 4, padding='same')": ["x(2, 3, 9)"],
    "Conv1d(3, 4, 3, padding='valid')": ["x(2, 3, 9)"],
    **{
        f"Conv{n}d(2, 3, {k}, padding={p!r}, padding_mode={m!r})": [f"x(2, 2{', 5' * n})", f"x(2{', 5' * n})"]
        for n in (1, 2)
        for k, p in ((3, 2), (4, "same"), (3, "valid"))
        for m in ("reflect", "replicate", "circular")
    },
    "Conv2d(3, 4, 3)": ["x(2, 3, 8, 8)", "x(3, 8, 8)"],
    "Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2)": ["x(2, 4, 9, 8)"],
    "Conv2d(3, 4, (4, 3), padding='same', dilation=2)": ["x(2, 3, 9, 8)"],
    "Conv2d(8, 16, 5, padding=(2, 1), bias=False)": ["x(1, 8, 6, 7)"],
    "Conv2d(3, 4, (3, 2), padding=(2, 1), padding_mode='reflect')": ["x(2, 3, 5, 6)"],
    "Conv3d(2, 3, 2)": ["x(2, 2, 4, 4, 4)", "x(2, 4, 4, 4)"],
    "Conv3d(2, 4, (3, 2, 1), (1, 2, 1), 1, groups=2)": ["x(2, 2, 4, 5, 3)"],
    "ConvTranspose1d(3, 4, 3)": ["x(2, 3, 6)", "x(3, 6)", "x(2, 3, 6), [8]"],
    "ConvTranspose1d(4, 6, 3, 3, 1, 1, 2, False, 2)": ["x(2, 4, 5)"],
    "ConvTranspose2d(3, 4, 3)": ["x(2, 3, 5, 4)", "x(3, 5, 4)"],
    "ConvTranspose2d(3, 4, 3, stride=2, padding=1)": [
        "x(2, 3, 4, 4)",
        "x(2, 3, 4, 4), output_size=(8, 7)",
        "x(2, 3, 4, 4), [2, 4, 8, 8]",
        "x(3, 4, 4), (7, 8)",
    ],
    "ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2)": ["x(2, 4, 4, 4)"],
    "ConvTranspose3d(2, 3, 2, 2)": ["x(1, 2, 3, 2, 3)"],
    "MaxPool1d(2)": ["x(2, 3, 8)", "x(3, 8)"],
    "MaxPool1d(3, 2, 1, 2, ceil_mode=True)": ["x(2, 3, 10)"],
    "MaxPool1d(2, return_indices=True)": ["x(2, 3, 8)"],
    "MaxPool2d(2)": ["x(2, 3, 8, 6)", "x(3, 8, 6)"],
    "MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0), ceil_mode=True)": ["x(2, 3, 8, 6)"],
    "MaxPool2d(2, return_indices=True)": ["x(2, 3, 8, 6)"],
    "MaxPool3d(2)": ["x(2, 3, 4, 4, 4)"],
    "MaxPool3d(2, 1, return_indices=True)": ["x(2, 3, 3, 4, 3)"],
    "AvgPool1d(2)": ["x(2, 3, 8)", "x(3, 8)"],
    "AvgPool1d(3, 2, 1, True, False)": ["x(2, 3, 8)"],
    "AvgPool2d(2)": ["x(2, 3, 8, 6)", "x(3, 8, 6)"],
    "AvgPool2d((3, 2), 2, 1, True, False)": ["x(2, 3, 8, 6)"],
    "AvgPool2d(3, divisor_override=2)": ["x(2, 3, 8, 6)"],
    "AvgPool3d(2)": ["x(2, 3, 4, 4, 4)"],
    "AdaptiveAvgPool1d(3)": ["x(2, 3, 8)", "x(3, 8)"],
    "AdaptiveAvgPool2d((3, None))": ["x(2, 3, 8, 6)"],
    "AdaptiveAvgPool2d(1)": ["x(2, 3, 8, 6)"],
    "AdaptiveAvgPool3d(2)": ["x(2, 3, 4, 5, 4)"],
    "AdaptiveMaxPool1d(3)": ["x(2, 3, 8)", "x(3, 8)", "x(2, 3, 9)"],
    "AdaptiveMaxPool1d(5, return_indices=True)": ["x(2, 3, 8)", "x(3, 8)", "x(2, 3, 3)"],
    "AdaptiveMaxPool2d((3, None))": ["x(2, 3, 8, 6)"],
    "AdaptiveMaxPool2d((3, 2), True)": ["x(2, 3, 8, 7)", "x(3, 8, 7)"],
    "AdaptiveMaxPool2d(1)": ["x(2, 3, 8, 6)"],
    "LPPool1d(2, 3)": ["x(2, 3, 8)", "x(3, 8)"],
    "LPPool1d(3, 2, 1, True)": ["x(2, 3, 8).abs()"],
    "LPPool2d(2, (3, 2), 2)": ["x(2, 3, 8, 6)"],
    "LPPool2d(float('inf'), 2)": ["x(2, 3, 8, 6)"],
    "LPPool3d(2, 2)": ["x(2, 3, 4, 4, 4)"],
    "MaxUnpool3d(2, 2)": ["x(1, 1, 1, 2, 1), torch.tensor([[[[[3], [14]]]]])"],
    "AdaptiveMaxPool3d((2, None, 3), True)": ["x(2, 3, 5, 4, 4)", "x(3, 5, 4, 4)"],
    "MaxUnpool1d(2)": ["x(1, 1, 3), torch.tensor([[[0, 2, 5]]])", "x(1, 1, 3), torch.tensor([[[0, 2, 5]]]), [7]"],
    "MaxUnpool2d(2, 2)": ["x(1, 1, 2, 2), torch.tensor([[[[0, 3], [8, 15]]]])", "x(1, 2, 2), torch.tensor([[[0, 3], [8, 15]]])"],
    **{
        f"{kind}Pad{n}d({edges})": [f"x(2, 2{', 5' * n})", f"x(2{', 5' * n})"]
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for n in (1, 2, 3)
        for edges in ("2", ("(1, 2)", "(1, 2, 0, 3)", "(1, 2, 0, 3, 2, 1)")[n - 1])
    },
    "ConstantPad1d(1, 2.5)": ["x(2, 3, 4)", "x(3, 4)"],
    "ConstantPad2d((1, -1, 2, 0), 0.5)": ["x(2, 3, 4, 4)"],
    "ConstantPad3d(1, 3)": ["x(2, 3, 4, 4)"],
    "ZeroPad2d((-1, 1, 0, 2))": ["x(2, 3, 4, 4)"],
    "BatchNorm1d(4)": ["x(3, 4)", "x(3, 4, 5)"],
    "BatchNorm1d(4, 1e-3, None)": ["x(3, 4)"],
    "BatchNorm1d(4, affine=False)": ["x(3, 4)"],
    "BatchNorm1d(4, bias=False)": ["x(3, 4)"],
    "BatchNorm1d(4, track_running_stats=False)": ["x(3, 4)"],
    "BatchNorm2d(4)": ["x(3, 4, 5, 2)"],
    "BatchNorm2d(4, momentum=0.7)": ["x(3, 4, 5, 2)"],
    "BatchNorm3d(4)": ["x(3, 4, 2, 2, 2)"],
    "InstanceNorm1d(4)": ["x(3, 4, 5)", "x(4, 5)"],
    "InstanceNorm1d(4, affine=True, track_running_stats=True)": ["x(3, 4, 5)", "x(4, 5)"],
    "InstanceNorm2d(4, affine=True)": ["x(3, 4, 5, 2)", "x(4, 5, 2)"],
    "InstanceNorm2d(4, momentum=0.3, track_running_stats=True)": ["x(3, 4, 5, 2)"],
    "InstanceNorm2d(4, affine=True, bias=False)": ["x(3, 4, 5, 2)"],
    "InstanceNorm3d(4)": ["x(3, 4, 2, 2, 2)"],
    "LayerNorm(4)": ["x(3, 4)", "x(4)"],
    "LayerNorm((3, 4), 1e-3)": ["x(2, 3, 4)"],
    "LayerNorm(4, elementwise_affine=False)": ["x(3, 4)"],
    "LayerNorm([4], bias=False)": ["x(3, 4)"],
    "RMSNorm(4)": ["x(3, 4)", "x(4)"],
    "RMSNorm((3, 4), 1e-3)": ["x(2, 3, 4)"],
    "RMSNorm(4, elementwise_affine=False)": ["x(3, 4)"],
    "GroupNorm(2, 4)": ["x(3, 4)", "x(3, 4, 5)", "x(3, 4, 5, 2)"],
    "GroupNorm(2, 4, 1e-3, affine=False)": ["x(3, 4, 5)"],
    "GroupNorm(1, 4, bias=False)": ["x(3, 4, 5)"],
    "LocalResponseNorm(3)": ["x(2, 5, 4)", "x(2, 5, 4, 3)"],
    "LocalResponseNorm(2, 0.1, 0.5, 2.0)": ["x(2, 5, 4, 3)", "x(2, 5, 2, 2, 3)"],
    "Dropout()": ["x(3, 4)", "x(50, 40)"],
    "Dropout(0.2)": ["x(50, 40)"],
    "Dropout(1.0)": ["x(3, 4)"],
    "Dropout(0.3, True)": ["x(3, 4) * 2"],
    "Dropout1d(0.3)": ["x(3, 4, 5)", "x(4, 5)"],
    "Dropout2d(0.3)": ["x(3, 4, 5, 2)", "x(4, 5, 2)"],
    "Dropout2d(0.3, True)": ["x(3, 4, 5, 2) * 2"],
    "Dropout3d(0.3)": ["x(3, 4, 2, 2, 2)", "x(4, 2, 2, 2)"],
    "AlphaDropout(0.3)": ["x(3, 4)"],
    "FeatureAlphaDropout(0.3)": ["x(3, 4, 5)"],
    "AlphaDropout(0.3, True)": ["x(3, 4) * 2"],
    "FeatureAlphaDropout()": ["x(3, 4)", "x(3, 4, 5, 2)"],
    "Embedding(5, 3)": ["i(5, 2, 4)", "i(5)"],
    "Embedding(5, 3, padding_idx=-2)": ["i(5, 9)"],
    "Embedding(5, 3, padding_idx=0)": ["i(5, 9)"],
    "Embedding(5, 3, max_norm=0.8, norm_type=1.0)": ["i(5, 3)"],
    "Embedding(5, 3, scale_grad_by_freq=True)": ["i(5, 9)"],
    "Embedding(7, 30, max_norm=1)": ["i(7, 3)"],
    "Embedding.from_pretrained(torch.ones(3, 2))": ["i(3, 4)"],
    "Embedding.from_pretrained(torch.ones(3, 2), freeze=False, padding_idx=1)": ["i(3, 4)"],
    "EmbeddingBag(5, 3)": ["i(5, 2, 4)", "i(5, 7), torch.tensor([0, 3, 3, 5])", "i(5, 7), offsets=torch.tensor([0, 7])"],
    "EmbeddingBag(5, 3, mode='sum', padding_idx=2)": ["i(5, 4, 4)", "i(5, 2, 4), None, x(2, 4)"],
    "EmbeddingBag(5, 3, mode='max')": ["i(5, 2, 4)", "i(5, 7), torch.tensor([0, 3, 3, 5])"],
    "EmbeddingBag(5, 3, mode='max', padding_idx=1)": ["i(5, 3, 4)"],
    "EmbeddingBag(5, 3, padding_idx=1)": ["i(5, 3, 4)"],
    "EmbeddingBag(5, 3, scale_grad_by_freq=True, include_last_offset=True, mode='sum')": [
        "torch.tensor([3, 1, 0]), torch.tensor([0, 2, 3])"
    ],
    "EmbeddingBag(5, 3, max_norm=0.5, norm_type=3.0)": ["i(5, 2, 4)"],
    "EmbeddingBag.from_pretrained(torch.ones(3, 2))": ["i(3, 2, 4)"],
    "Upsample(scale_factor=2)": ["x(2, 3, 4)", "x(2, 3, 4, 5)", "x(1, 2, 2, 3, 2)"],
    "Upsample(7)": ["x(2, 3, 4)", "x(2, 3, 5, 9)"],
    "Upsample((3, 7))": ["x(2, 3, 4, 5)"],
    "Upsample(scale_factor=1.7)": ["x(2, 3, 5)"],
    "Upsample(scale_factor=(0.6, 2.3), mode='nearest-exact')": ["x(2, 3, 5, 4)"],
    "Upsample(9, mode='linear')": ["x(2, 3, 4)"],
    "Upsample(9, mode='linear', align_corners=True)": ["x(2, 3, 4)"],
    "Upsample(scale_factor=1.7, mode='bilinear')": ["x(2, 3, 4, 5)"],
    "Upsample(scale_factor=1.7, mode='bilinear', recompute_scale_factor=True)": ["x(2, 3, 4, 5)"],
    "Upsample((3, 9), mode='bicubic')": ["x(2, 3, 5, 4)"],
    "Upsample((3, 9), mode='bicubic', align_corners=True)": ["x(2, 3, 5, 4)"],
    "Upsample((3, 4, 5), mode='trilinear')": ["x(1, 2, 2, 3, 2)"],
    "Upsample(3, mode='area')": ["x(2, 3, 4)", "x(2, 3, 4, 5)"],
    "Upsample(1, mode='bilinear', align_corners=True)": ["x(2, 3, 4, 5)"],
    "UpsamplingNearest2d(scale_factor=3)": ["x(2, 3, 4, 5)"],
    "UpsamplingNearest2d((2, 9))": ["x(2, 3, 4, 5)"],
    "UpsamplingBilinear2d(scale_factor=2)": ["x(2, 3, 4, 5)"],
    "PixelShuffle(2)": ["x(2, 8, 3, 4)", "x(8, 3, 4)"],
    "PixelUnshuffle(2)": ["x(2, 3, 4, 6)", "x(3, 4, 6)"],
    "ChannelShuffle(2)": ["x(2, 6, 3)", "x(2, 6, 3, 2)"],
    "Unfold(2)": ["x(2, 3, 4, 5)", "x(3, 4, 5)"],
    "Unfold((2, 3), 2, 1, 2)": ["x(2, 3, 6, 8)"],
    "Unfold((2, 3), (1, 2), (0, 1), (2, 1))": ["x(2, 3, 6, 8)"],
    "Fold((4, 5), 2)": ["x(2, 12, 12)", "x(12, 12)"],
    "Fold((5, 4), (2, 3), 1, 1, 2)": ["x(2, 12, 6)"],
    "CosineSimilarity()": ["x(3, 4), x(3, 4)"],
    "CosineSimilarity(0, 1e-3)": ["x(3, 4), x(3, 4)"],
    "PairwiseDistance()": ["x(3, 4), x(3, 4)", "x(4), x(4)"],
    "PairwiseDistance(1, 1e-3, True)": ["x(3, 4), x(3, 4)"],
}


def reduced(name, options=""):
    """A loss with each of its reductions."""
    return [f"{name}({options}{', ' if options else ''}reduction={reduction!r})" for reduction in ("mean", "sum", "none")]


PAIRS, SIGNS = "x(3, 4), x(3, 4)", "x(3, 4), torch.tensor([[1.0, -1, 1, -1]] * 3).to(dtype)"
TRIPLES, ONE_SIGN = "x(3, 4), x(3, 4), x(3, 4)", "x(3, 4), x(3, 4), torch.tensor([1, -1, 1])"
CTC = [
    "x(7, 3, 5).log_softmax(-1), torch.tensor([[1, 2, 2], [3, 1, 4], [2, 0, 0]]), torch.tensor([7, 5, 6]), torch.tensor([3, 2, 1])",
    "x(7, 3, 5).log_softmax(-1), torch.tensor([1, 2, 2, 3, 1, 4]), (7, 5, 6), (3, 2, 1)",
    "x(6, 5).log_softmax(-1), torch.tensor([1, 1]), torch.tensor(6), torch.tensor(2)",
    "x(4, 2, 5), torch.tensor([[1, 2], [3, 3]]), (4, 3), (2, 2)",
]
LOSSES = {
    **{loss: [PAIRS] for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss") for loss in reduced(name)},
    "SmoothL1Loss(beta=0.3)": [PAIRS],
    "HuberLoss(delta=0.3)": [PAIRS],
    "SmoothL1Loss(None, None, 'sum', 0)": [PAIRS],
    **{loss: ["x(3, 4), i(4, 3)", "x(2, 4, 5), i(4, 2, 5)", "x(4), i(4)", "x(3, 4), p(3, 4)"] for loss in reduced("CrossEntropyLoss")},
    "CrossEntropyLoss(weight=p(4), ignore_index=1, label_smoothing=0.1)": ["x(5, 4), i(4, 5)"],
    "CrossEntropyLoss(label_smoothing=0.2, reduction='none')": ["x(5, 4), i(4, 5)"],
    "CrossEntropyLoss(p(4), label_smoothing=0.1)": ["x(5, 4), p(5, 4)"],
    **{loss: ["x(3, 4).log_softmax(1), i(4, 3)", "x(2, 4, 5, 3), i(4, 2, 5, 3)", "x(4), i(4)"] for loss in reduced("NLLLoss")},
    "NLLLoss(p(4), ignore_index=2)": ["x(5, 4), i(4, 5)"],
    "NLLLoss(p(4), reduction='none')": ["x(5, 4), i(4, 5)"],
    **{loss: ["x(3, 4).sigmoid(), p(3, 4)"] for loss in reduced("BCELoss")},
    "BCELoss(p(4))": ["x(3, 4).sigmoid(), p(3, 4)"],
    **{loss: ["x(3, 4), p(3, 4)"] for loss in reduced("BCEWithLogitsLoss")},
    "BCEWithLogitsLoss(p(4), pos_weight=p(4))": ["x(3, 4), p(3, 4)"],
    **{loss: ["x(3, 4).log_softmax(1), p(3, 4)"] for loss in reduced("KLDivLoss")},
    "KLDivLoss(reduction='batchmean')": ["x(3, 4), p(3, 4)"],
    "KLDivLoss(reduction='batchmean', log_target=True)": ["x(3, 4), x(3, 4)"],
    **{loss: ["x(3, 4), p(3, 4) * 5"] for loss in reduced("PoissonNLLLoss")},
    "PoissonNLLLoss(False, True, eps=1e-3)": ["x(3, 4).abs(), p(3, 4) * 5"],
    **{
        loss: ["x(3, 4), x(3, 4), p(3, 4)", "x(3, 4), x(3, 4), p(3, 1)", "x(3, 4), x(3, 4), 0.5"]
        for loss in reduced("GaussianNLLLoss", "full=True, eps=0.2")
    },
    **{loss: [SIGNS] for name in ("HingeEmbeddingLoss", "SoftMarginLoss") for loss in reduced(name)},
    "HingeEmbeddingLoss(0.4)": [SIGNS],
    **{loss: ["x(3), x(3), torch.tensor([1, -1, 1])"] for loss in reduced("MarginRankingLoss")},
    "MarginRankingLoss(0.4)": ["x(3), x(3), torch.tensor([1, -1, 1])"],
    **{loss: [ONE_SIGN, "x(4), x(4), torch.tensor(-1)"] for loss in reduced("CosineEmbeddingLoss", "0.2")},
    **{loss: ["x(3, 4), i(4, 3)", "x(4), i(4)"] for loss in reduced("MultiMarginLoss")},
    "MultiMarginLoss(2, 0.7, p(4))": ["x(3, 4), i(4, 3)"],
    **{
        loss: [
            "x(2, 4), torch.tensor([[3, 0, -1, 1], [1, 2, 3, 0]])",
            "x(4), torch.tensor([3, 0, -1, 1])",
            "x(1, 4), torch.tensor([[-1, 0, 1, 2]])",
        ]
        for loss in reduced("MultiLabelMarginLoss")
    },
    **{loss: ["x(3, 4), p(3, 4)", "x(4), p(4)"] for loss in reduced("MultiLabelSoftMarginLoss")},
    "MultiLabelSoftMarginLoss(p(4))": ["x(3, 4), p(3, 4)"],
    **{loss: [TRIPLES, "x(4), x(4), x(4)"] for loss in reduced("TripletMarginLoss")},
    "TripletMarginLoss(0.4, 1, 1e-2, True)": [TRIPLES],
    **{loss: [TRIPLES] for loss in reduced("TripletMarginWithDistanceLoss")},
    "TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), margin=2.0, swap=True)": [TRIPLES],
    **{loss: CTC for loss in reduced("CTCLoss")},
    "CTCLoss(blank=4, zero_infinity=True)": [
        "x(3, 2, 5).log_softmax(-1), torch.tensor([[1, 1], [2, 3]]), (3, 2), (2, 2)",
        "x(2, 2, 5).log_softmax(-1), torch.tensor([[1, 1], [2, 3]]), (2, 2), (2, 2)",
    ],
    "MSELoss(size_average=False)": [PAIRS],
    "MSELoss(reduce=False)": [PAIRS],
    "L1Loss(True)": [PAIRS],
    "CrossEntropyLoss(size_average=False)": ["x(3, 4), i(4, 3)"],
}
MODULES = {**ACTIVATIONS, **LAYERS, **LOSSES}


class Bench:
    """One of the two libraries, and the same random inputs in it."""

    def __init__(self, module, dtype="float32"):
        self.module, self.dtype, self.leaves = module, getattr(module, dtype), []
        self.random = np.random.default_rng(0)
        self.names = {"torch": module, "nn": module.nn, "dtype": self.dtype, "x": self.x, "p": self.p, "i": self.i}

    def x(self, *shape):
        leaf = self.module.tensor(self.random.normal(size=shape)).to(self.dtype).requires_grad_()
        self.leaves.append(leaf)
        return leaf

    def p(self, *shape):
        return self.module.tensor(self.random.uniform(0.05, 0.95, size=shape)).to(self.dtype)

    def i(self, high, *shape):
        return self.module.tensor(self.random.integers(0, high, size=shape))

    def make(self, text):
        self.module.manual_seed(3)
        layer = eval(f"nn.{text}", self.names)
        return layer.to(self.dtype)

    def arguments(self, inputs):
        """As a tuple and a dictionary."""
        return eval(f"(lambda *args, **kwargs: (args, kwargs))({inputs})", self.names)

    def call(self, layer, inputs):
        self.module.manual_seed(5)
        result = eval(f"layer({inputs})", {**self.names, "layer": layer})
        return result if isinstance(result, tuple) else (result,)


def trained(module, text, inputs, training, dtype):
    """The layer, its outputs, and the gradients of inputs and parameters."""
    bench = Bench(module, dtype)
    layer = bench.make(text).train(training)
    outputs = bench.call(layer, inputs)
    out = outputs[0]
    if out.requires_grad:
        weights = module.tensor(np.random.default_rng(1).normal(size=tuple(out.shape))).to(bench.dtype)
        (out * weights).sum().backward()
    gradients = [leaf.grad for leaf in bench.leaves] + [p.grad for p in layer.parameters()]
    return layer, [t.detach().numpy() for t in outputs], [None if g is None else g.numpy() for g in gradients]


def figure(arrays):
    """One number that changes when an element does, or where it stands."""
    total, place = 0.0, 0
    for array in arrays:
        if array is not None:
            total += float(np.cos(np.arange(place, place + array.size)) @ array.reshape(-1).astype(np.float64))
            place += array.size + 1
    return total


def figures(module, text, inputs, training):
    """Of the outputs, of the gradients, and of the state afterwards, in double precision."""
    layer, outputs, gradients = trained(module, text, inputs, training, "float64")
    state = [value.detach().numpy() for value in layer.state_dict().values()]
    return [figure(outputs), figure(gradients), figure(state)]


def write(module):
    """What `layer_figures.json` has of every program."""
    lines = []
    for text, several in MODULES.items():
        shown = repr(Bench(module).make(text))
        runs = [[float(f"{n:.10g}") for mode in (True, False) for n in figures(module, text, inputs, mode)] for inputs in several]
        lines.append(f"{json.dumps(text)}: {json.dumps([shown, *runs])}")
    FIGURES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    write(torch)
