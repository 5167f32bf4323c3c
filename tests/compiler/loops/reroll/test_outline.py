"""Equal layers are written, traced and lowered once: as a function that the source calls for each of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn

COUNT = 12


def net(seed: int = 0, count: int = COUNT) -> nn.Sequential:
    sg.manual_seed(seed)
    return nn.Sequential(*[part for _ in range(count) for part in (nn.Linear(5, 5), nn.Tanh())])


def trained(name: str, steps: int, **options: Any) -> tuple[Any, nn.Sequential, list[float]]:
    """A compiled step, what it has trained, and the losses."""
    model = net()
    settings: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(sg.optim, name)(model.parameters(), lr=0.01, **settings)

    @sg.compile(**options)
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x = sg.randn(4, 5)
    return step, model, [step(x).item() for _ in range(steps)]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_a_step_computes_what_it_computed_to_the_bit(name: str) -> None:
    """XLA puts the function in the place of every call: its program is the same."""
    (step, one, losses), (plain, other, expected) = trained(name, 5), trained(name, 5, roll=False)
    assert "def layer(" in step.source()
    assert "def layer(" not in plain.source()
    assert losses == expected
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_the_source_has_one_layer_and_a_call_for_each() -> None:
    model = net()
    fast = sg.compile(lambda x: (model(x) ** 2).sum())
    fast.value_and_grad(sg.randn(4, 5), wrt=[*range(1, 2 * COUNT + 1)])
    source = fast.source("value_and_grad", wrt=[*range(1, 2 * COUNT + 1)])
    assert source.count("\n\n\n@jax.jit\ndef layer") == source.count("@jax.jit") >= 1
    assert source.count("jnp.sum(") < COUNT
    (parameters,) = re.findall(r"def layer\((.*)\):\n", source)[-1:]
    assert "weight" in parameters.split(", ")
    assert source.count("= layer(") >= COUNT - 2


def test_jax_lowers_it_once() -> None:
    step, _, _ = trained("Adam", 2)
    text = step._latest.kernel().stablehlo()
    calls = len(re.findall(r"call @layer", text))
    assert calls >= COUNT - 2
    assert len(re.findall(r"func\.func private @layer", text)) <= 2
    assert text.count("stablehlo.sqrt") < COUNT


def test_a_net_with_few_layers_stays_as_it_is_written() -> None:
    model = net(count=4)
    fast = sg.compile(lambda x: (model(x) ** 2).sum())
    fast(sg.randn(4, 5))
    assert "layer" not in fast.source()


@pytest.mark.parametrize("factors", [[0.5] * COUNT, [(i + 1) / COUNT for i in range(COUNT)]])
def test_numbers_that_differ_from_layer_to_layer_stay_numbers(factors: list[float]) -> None:
    weights = [sg.randn(4, 4) / 4 for _ in range(COUNT)]

    def layers(x: Any) -> Any:
        for w, factor in zip(weights, factors, strict=True):
            x = ((x @ w * factor).tanh() + 1).sin().cos()
        return x.sum()

    x = sg.randn(3, 4)
    fast = sg.compile(layers)
    np.testing.assert_allclose(fast(x).item(), layers(x).item(), rtol=1e-5)
    assert ("def layer" in fast.source()) == (len(set(factors)) == 1)


def test_a_tensor_may_be_called_layer() -> None:
    model = net(count=40)

    def total(layer: Any, layer1: Any) -> Any:
        return (model(layer) * layer1).sum()

    fast, x, y = sg.compile(total), sg.randn(4, 5), sg.randn(5)
    value, slopes = fast.value_and_grad(x, y, wrt=("layer",))
    x.requires_grad_()
    total(x, y).backward()
    np.testing.assert_allclose(value.item(), total(x, y).item(), rtol=1e-5)
    np.testing.assert_allclose(slopes[0].numpy(), x.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert "def layer2(" in fast.source("value_and_grad", wrt=("layer",))


def test_what_is_explained_counts_operations_and_no_calls() -> None:
    step, _, _ = trained("SGD", 2)
    plain, _, _ = trained("SGD", 2, roll=False)
    counts = [re.search(r"(\d+) in the graph", str(f.explain())) for f in (step, plain)]
    assert None not in counts
    assert len({found[1] for found in counts if found}) == 1


def test_a_call_says_what_does_not_fit() -> None:
    step, _, _ = trained("SGD", 2)
    call = next(v for v in step._latest.kernel().graph.values if v.op == "call")
    with pytest.raises(sg.errors.GraphError, match=r"the inputs of a function: .* are wanted"):
        call.row.type(*call.args[1:], body=call.attrs["body"])
