"""Every layer, activation and loss, compiled, is what it is eagerly: results, gradients, state, random numbers; training and evaluating.

Several of them are one function, since what compiling costs is mostly a kernel's own. The interpreter runs all of them at every time,
XLA some, and all where slow tests run.
"""

from __future__ import annotations

import numpy as np
import pytest
from fuzzing.world import interpreted
from layer_programs import MODULES, Bench

import symgrad as sg

RUNS = [(text, inputs) for text, several in MODULES.items() for inputs in several]
BATCHES = [RUNS[i::12] for i in range(12)]
TELLING = [
    run for run in RUNS
    if run[0] in ("BatchNorm1d(4)", "Dropout2d(0.3)", "Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2)", "GELU()", "PReLU(4, 0.1)",
        "ConvTranspose1d(3, 4, 3)", "MaxPool2d(2)", "GroupNorm(2, 4)", "Embedding(5, 3, padding_idx=0)", "Bilinear(3, 4, 5)",
        "CrossEntropyLoss(reduction='mean')", "LPPool1d(2, 3)", "ReLU(inplace=True)", "Upsample(9, mode='linear')", "Fold((4, 5), 2)",
        "TripletMarginLoss(reduction='mean')", "InstanceNorm1d(4, affine=True, track_running_stats=True)")
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore")


class Layers:
    """Several layers with the inputs of their programs. `run` calls all of them: `wrap` may compile that."""

    def __init__(self, runs, training, wrap=lambda f: f):
        self.benches, self.layers, self.runs = [], [], runs
        for text, _ in runs:
            bench = Bench(sg, "float64")
            self.layers.append(bench.make(text).train(training))
            self.benches.append(bench)
        self.call = wrap(self.all)

    def all(self, given):
        return [layer(*args, **kwargs) for layer, (args, kwargs) in zip(self.layers, given, strict=True)]

    def run(self):
        sg.manual_seed(5)
        found = {}
        for bench in self.benches:
            bench.leaves.clear()
        results = self.call([bench.arguments(inputs) for bench, (_, inputs) in zip(self.benches, self.runs, strict=True)])
        for (text, inputs), bench, layer, result in zip(self.runs, self.benches, self.layers, results, strict=True):
            outs = result if isinstance(result, tuple) else (result,)
            where = f"{text} on {inputs}: "
            found |= {f"{where}output {i}": t.detach() for i, t in enumerate(outs)}
            if outs[0].requires_grad:
                weights = np.random.default_rng(1).normal(size=tuple(outs[0].shape))
                (outs[0] * sg.tensor(weights)).sum().backward(retain_graph=True)
            found |= {f"{where}gradient of input {i}": leaf.grad for i, leaf in enumerate(bench.leaves)}
            found |= {f"{where}gradient of {name}": p.grad for name, p in layer.named_parameters()}
            found |= {f"{where}{name}": value.detach() for name, value in layer.state_dict().items()}
        found["random numbers"] = sg.get_rng_state()
        return {where: None if t is None else np.array(t.numpy()) for where, t in found.items()}


def agree(runs, training, calls=2):
    eager, fast = Layers(runs, training), Layers(runs, training, sg.compile)
    for call in range(calls):
        wanted, found = eager.run(), fast.run()
        for where, value in wanted.items():
            if value is None or found[where] is None:
                assert not np.any(0 if found[where] is None else found[where]), where
                continue
            np.testing.assert_allclose(found[where], value, rtol=1e-8, atol=1e-10, err_msg=f"call {call}: {where}")


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
@pytest.mark.parametrize("batch", range(12))
def test_every_layer(batch, training):
    with interpreted():
        agree(BATCHES[batch], training)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
def test_layers_through_xla(training):
    agree(TELLING, training)


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
@pytest.mark.parametrize("batch", range(12))
def test_every_layer_through_xla(batch, training):
    agree(BATCHES[batch], training)
