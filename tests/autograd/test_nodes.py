"""Nodes as PyTorch shows them: the type has its name, inputs stand in its order. The figures are PyTorch 2.13's."""

from __future__ import annotations

import pytest
from node_calls import namespace

import symgrad as sg

NODES = {
    "x + y": ("AddBackward0", ["x", "y"]),
    "x + 2": ("AddBackward0", ["x", None]),
    "x * 2": ("MulBackward0", ["x", None]),
    "x % 2": ("RemainderBackward0", ["x"]),
    "torch.pow(2., p)": ("PowBackward2", ["p"]),
    "2 - p": ("RsubBackward1", ["p"]),
    "torch.where(mask, x, y)": ("WhereBackward0", ["x", "y"]),
    "torch.where(mask, x, 0.)": ("WhereBackward0", ["x", None]),
    "torch.gather(x, 0, i)": ("GatherBackward0", ["x"]),
    "x[k]": ("IndexBackward0", ["x"]),
    "x.masked_fill(mask, v[0])": ("MaskedFillBackward1", ["x", "SelectBackward0"]),
    "x.index_add(0, k3, y)": ("IndexAddBackward0", ["x", "y"]),
    "torch.lerp(x, y, 0.3)": ("LerpBackward0", ["x", "y"]),
    "torch.addmm(m, m, m)": ("AddmmBackward0", ["m", "m", "m"]),
    "F.linear(x, w.t(), torch.cat([v, v])[:5])": ("AddmmBackward0", ["SliceBackward0", "x", "TBackward0"]),
    "F.linear(x, w.t())": ("MmBackward0", ["x", "TBackward0"]),
    "F.conv1d(im[0], im[0][:, :, :2])": ("ConvolutionBackward0", ["SelectBackward0", "SliceBackward0", None]),
    "F.layer_norm(x, (4,), v, v)": ("NativeLayerNormBackward0", ["x", "v", "v"]),
    "F.layer_norm(x, (4,))": ("NativeLayerNormBackward0", ["x", None, None]),
    "F.cross_entropy(x, k3)": ("NllLossBackward0", ["LogSoftmaxBackward0"]),
    "F.embedding(k, x)": ("EmbeddingBackward0", ["x"]),
    "x.clone().masked_fill_(mask, 2.)": ("MaskedFillBackward0", ["CloneBackward0"]),
}


@pytest.mark.parametrize("text", NODES)
def test_a_node_has_its_name_and_inputs(text):
    names = namespace(sg)
    node = eval(text, names).grad_fn  # a text of this test
    leaves = {id(t): name for name, t in names.items()}
    ends = [end if end is None else leaves.get(id(getattr(end, "variable", None)), type(end).__name__) for end, _ in node.next_functions]
    assert (type(node).__name__, ends) == NODES[text]
    assert node.name() == type(node).__name__
    assert isinstance(node, sg.autograd.graph.Node)


def test_looking_at_nodes_changes_no_gradient():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    h = x.sin()
    y = (h * h + h).sum()
    looked, steps = [y.grad_fn], []
    while looked:
        node = looked.pop()
        steps.append(type(node).__name__)
        looked += [end for end, _ in node.next_functions if end is not None]
    (first,) = sg.autograd.grad(y, x, create_graph=True)
    first.sum().backward()
    assert steps[0] == "SumBackward0"
    assert steps[-1] == "AccumulateGrad"
    assert sg.allclose(first, (2 * x.sin() + 1) * x.cos())
    assert sg.allclose(x.grad, 2 * (2 * x).cos() - x.sin())


def test_hooks_of_a_node_see_gradients_in_that_order():
    x, w, b = sg.ones(2, 3, requires_grad=True), sg.ones(4, 3, requires_grad=True), sg.ones(4, requires_grad=True)
    shapes = []
    y = sg.nn.functional.linear(x, w, b)
    y.grad_fn.register_hook(lambda gs, outs: shapes.extend(list(g.shape) for g in gs) or (gs[0] * 2, gs[1], gs[2]))
    y.sum().backward()
    assert shapes[:2] == [[4], [2, 3]]
    assert b.grad.tolist() == [4.0] * 4
    assert x.grad.tolist() == [[4.0] * 3] * 2


def test_the_node_of_a_function_bears_its_name():
    class Twice(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = sg.tensor([1.0], requires_grad=True)
    y = Twice.apply(x)
    assert type(y.grad_fn).__name__ == "TwiceBackward"
    y.add_(1)  # a write after looking
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_results_that_pytorch_can_view():
    x = sg.arange(12.0).reshape(4, 3).t()
    heads = sg.ones(2, 4, 3, 5).transpose(1, 2)
    attended = sg.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    assert attended.transpose(1, 2).view(2, 4, 15).shape == (2, 4, 15)
    for y in (sg.cat([x, x]), x.softmax(0), x.log_softmax(1), x.cumsum(0), x.roll(1, 0), sg.linalg.cross(x[:, :3], x[:, :3])):
        assert y.view(-1).shape == (y.numel(),)
    row = sg.arange(4.0).expand(3, 4)
    for y in (row.sigmoid(), row.clamp(0, 1), row.double(), sg.nn.functional.gelu(row), row.ravel()):
        assert y.view(-1).shape == (12,)
    assert (x[None].stride(), x[..., None].stride()) == ((3, 1, 3), (1, 3, 1))
