"""Calls that are refused, with the error and the beginning of its text: one for each check of the values and shapes of arguments.

Checks of types have their own tests (`test_malformed_calls.py`); `test_every_refusal_is_tested` finds checks that no test names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad import fft, nn
from symgrad.nn import functional as F

x, m, c, img, one = sg.ones(3), sg.ones(2, 3), sg.ones(1, 2, 4), sg.ones(1, 4, 4, 4), sg.tensor(1.0)
i, b = sg.tensor([0, 1]), sg.tensor([True, False, True])

REFUSED = [
    (lambda: sg.cdist(m, m, p=-1.0), RuntimeError, "cdist only supports non-negative p values"),
    (lambda: sg.cdist(x, m), RuntimeError, "cdist only supports at least 2D tensors, X1 got: 1D"),
    (lambda: sg.cdist(m.long(), m.long()), RuntimeError, "cdist only supports floating-point dtypes, X1 got: Long"),
    (lambda: sg.cdist(m, m.double()), RuntimeError, "expected scalar type Float but found Double"),
    (lambda: sg.ones(2, 3).type(""), ValueError, "invalid type: ''"),
    (lambda: sg.arange(float("inf")), RuntimeError, "unsupported range: 0 -> inf"),
    (lambda: sg.zeros(-1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1] (zeros)"),
    (lambda: sg.rand(-1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1] (rand)"),
    (lambda: sg.iinfo(sg.float32), TypeError, "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'to"),
    (lambda: fft.fft(x, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
    (lambda: fft.fft2(m, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
    (lambda: fft.rfft2(m, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
    (lambda: fft.hfft(x, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
    (lambda: sg.from_numpy(np.ones(2, ">f4")), ValueError, "given numpy array has byte order different from the native byte order. Conv"),
    (lambda: sg.asarray([1.0], copy=False), ValueError, "can't alias an arbitrary sequence into a tensor."),
    (lambda: sg.func.jacfwd(lambda x: 3)(x), RuntimeError, "jacobian: Expected f to return only Tensors, got unsupported type <class 'i"),
    (lambda: sg.fliplr(x), RuntimeError, "Input must be >= 2-d."),
    (lambda: sg.flipud(one), RuntimeError, "Input must be >= 1-d."),
    (lambda: sg.rot90(m, 1, (0, 0)), RuntimeError, "expected rotation dims to be different, but got dim0 = 0 and dim1 = 0"),
    (lambda: sg.roll(m, (1, 2), (0,)), RuntimeError, "shifts and dimensions must align. shifts: 2, dims:1"),
    (lambda: sg.tile(m, (-1,)), RuntimeError, "Trying to create tensor with negative dimension -1: [1, -1]"),
    (lambda: sg.repeat_interleave(m, sg.tensor([1.0, 2.0])), RuntimeError, "repeat_interleave(): repeats must be integers, got float32"),
    (lambda: sg.diag_embed(m, 0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical 1, 1"),
    (lambda: sg.diagonal(m, 0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical 1, 1"),
    (lambda: sg.einsum(m, [0, 60]), ValueError, "einsum(): subscript 60 is not within the valid range [0, 52)"),
    (
        lambda: sg.index_select(m, 0, sg.tensor([0.5])),
        RuntimeError, "index_select(): Expected dtype int32/int64 for index, got torch.float32",
    ),
    (
        lambda: m.clone().index_copy_(0, i, sg.ones(2)),
        IndexError, "index_copy_(): When source and destination are not scalars, their dimension",
    ),
    (
        lambda: m.clone().index_put_((i,), sg.ones(2, 3).double()),
        RuntimeError, "Index put requires the source and destination dtypes match, got Float for t",
    ),
    (lambda: sg.take(m, sg.tensor([0.5])), RuntimeError, "take(): Expected a long tensor for index, but got Float"),
    (lambda: x.clone().masked_fill_(x, 1.0), RuntimeError, "masked_fill_ only supports boolean masks, but got mask with dtype torch.flo"),
    (lambda: sg.masked_select(x, x), RuntimeError, "masked_select: expected BoolTensor for mask"),
    (lambda: x.clone().masked_scatter_(x, x), RuntimeError, "masked_scatter_ only supports boolean masks, but got mask with dtype torch."),
    (lambda: x.clone().masked_scatter_(b, sg.ones(1)), RuntimeError, "Number of elements of source < number of ones in mask"),
    (
        lambda: sg.slice_scatter(m, sg.ones(1, 1), 0),
        RuntimeError, "expected src to have a size equal to the slice of self. src size = [1, 1],",
    ),
    (
        lambda: sg.select_scatter(m, sg.ones(1), 0, 0),
        RuntimeError, "expected src to have a size equal to the slice of self. src size = [1], sli",
    ),
    (lambda: sg.hstack([]), RuntimeError, "torch.hstack(): expected a non-empty list of Tensors"),
    (lambda: sg.split(x, -1), RuntimeError, "split expects split_size be non-negative, but got split_size=-1"),
    (lambda: sg.split(x, [4, -1]), RuntimeError, "split_with_sizes expects split_sizes have only non-negative entries, but go"),
    (lambda: F.prelu(c, sg.ones(3)), RuntimeError, "prelu: Mismatch of parameter numbers and input channel size. Found paramete"),
    (lambda: sg.flatten(c, 2, 1), RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim"),
    (lambda: sg.unflatten(x, 0, ()), RuntimeError, "unflatten: sizes must be non-empty"),
    (lambda: m.permute(0, 0), RuntimeError, "permute(): duplicate dims are not allowed."),
    (lambda: sg.narrow(one, 0, 0, 1), RuntimeError, "narrow() cannot be applied to a 0-dim tensor."),
    (lambda: sg.narrow(x, 0, 2, 2), RuntimeError, "start (2) + length (2) exceeds dimension size (3)."),
    (lambda: one.select(0, 0), IndexError, "select() cannot be applied to a 0-dim tensor."),
    (lambda: sg.quantile(sg.ones(0), 0.5), RuntimeError, "quantile() input tensor must be non-empty"),
    (lambda: sg.bincount(i, minlength=-1), RuntimeError, "minlength should be >= 0 (bincount: got -1)"),
    (lambda: m[x], IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (lambda: sg.block_diag(c), RuntimeError, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input 0 ha"),
    (lambda: np.gradient(sg.ones(1)), ValueError, "Shape of array too small to calculate a numerical gradient, at least (edge_"),
    (lambda: np.cross(sg.ones(2), sg.ones(4)), ValueError, "Both input arrays must be (arrays of) 3-dimensional vectors"),
    (lambda: np.linalg.cross(sg.ones(2), sg.ones(2)), ValueError, "Both input arrays must be (arrays of) 3-dimensional vectors"),
    (lambda: np.var(x, ddof=1, correction=1), ValueError, "ddof and correction can't be provided simultaneously."),
    (lambda: np.isin(x, x, kind="x"), ValueError, "Invalid kind: 'x'. Please use None, 'sort' or 'table'."),
    (lambda: np.isin(x, x, kind="table"), ValueError, "The 'table' method is only supported for boolean or integer arrays."),
    (lambda: np.trim_zeros(x, "x"), ValueError, "unexpected character(s) in `trim`: 'x'"),
    (lambda: np.squeeze(m, 0), ValueError, "cannot select an axis to squeeze out which has size not equal to one"),
    (lambda: np.searchsorted(x, x, side="x"), ValueError, "side must be one of 'left' or 'right', not 'x'"),
    (lambda: np.digitize(x, sg.tensor([1.0, 0.0, 2.0])), ValueError, "bins must be monotonically increasing or decreasing"),
    (lambda: sg.tensor(1.0).type("x"), ValueError, "invalid type: 'x'"),
    (lambda: nn.RNNCell(2, 2, nonlinearity="x")(sg.ones(2)), RuntimeError, "Unknown nonlinearity: x"),
    (lambda: F.celu(x, 0.0), RuntimeError, "ZeroDivisionError: alpha cannot be 0 for CELU"),
    (lambda: F.rrelu(x, 2.0, 1.0), RuntimeError, "rrelu: expected finite bounds with lower <= upper, got 2.0 and 1.0"),
    (lambda: F.threshold(x, "a", 1.0), TypeError, "threshold(): bounds must be numbers, not str"),
    (lambda: F.conv1d(c, sg.ones(0, 2, 1)), RuntimeError, "conv1d: non-empty weight tensor expected, got weight of size [0, 2, 1]"),
    (
        lambda: F.conv1d(c, sg.ones(1, 2, 1), padding="x"),
        RuntimeError, "conv1d: Invalid padding string: 'x', use 'same', 'valid' or numbers",
    ),
    (
        lambda: F.conv1d(c, sg.ones(1, 2, 1), sg.ones(2)),
        RuntimeError, "Given weight of size [1, 2, 1], expected bias to be 1-dimensional with 1 el",
    ),
    (
        lambda: F.conv_transpose1d(c, sg.ones(2, 1, 1), sg.ones(2)),
        RuntimeError, "Given transposed=1, weight of size [2, 1, 1], expected bias to be 1-dimensi",
    ),
    (lambda: F.ctc_loss(x, i, i, i), RuntimeError, "ctc_loss: expected log_probs of 2 or 3 dimensions, got [3]"),
    (
        lambda: F.ctc_loss(sg.ones(3, 2, 4), sg.ones(2, 2).long(), sg.tensor([3]), sg.tensor([1, 1])),
        RuntimeError, "input_lengths must be of size batch_size: got 1 for 2",
    ),
    (lambda: F.embedding(i, x), RuntimeError, "embedding: 'weight' must be 2-D, got [3]"),
    (lambda: F.embedding(i, m, sparse=True), ValueError, "embedding: sparse gradients are not supported; leave sparse=False"),
    (lambda: F.one_hot(x), RuntimeError, "one_hot is only applicable to index tensor of type LongTensor, got Float"),
    (lambda: F.pad(c, (1, 1), mode="x"), NotImplementedError, "Unrecognised padding mode x: use constant, reflect, replicate or circular"),
    (lambda: F.gaussian_nll_loss(x, x, -x), ValueError, "var has negative entry/entries"),
    (
        lambda: F.cosine_embedding_loss(m, m, sg.ones(2, 2)),
        RuntimeError, "cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not su",
    ),
    (
        lambda: F.cosine_embedding_loss(m, m, one),
        RuntimeError, "cosine_embedding_loss: 0D target tensor expects 1D input tensors, but found",
    ),
    (lambda: F.multi_margin_loss(c, i), RuntimeError, "multi_margin_loss: Expected non-empty vector or matrix with optional 0-dim"),
    (
        lambda: F.multi_margin_loss(m, sg.tensor([0, 1, 1])),
        RuntimeError, "multi_margin_loss: inconsistent target size: [3] for input of size: [2, 3]",
    ),
    (lambda: F.multi_margin_loss(m, i, weight=m), ValueError, "weight must be one-dimensional"),
    (lambda: F.multilabel_margin_loss(c, i), RuntimeError, "multilabel_margin_loss: Expected non-empty vector or matrix with optional 0"),
    (lambda: F.multilabel_margin_loss(m, i), RuntimeError, "multilabel_margin_loss: inconsistent target size: [2] for input of size: [2"),
    (lambda: F.batch_norm(c, None, None), RuntimeError, "batch_norm: running_mean and running_var must be defined in evaluation mode"),
    (
        lambda: F.instance_norm(c, use_input_stats=False),
        RuntimeError, "Expected running_mean and running_var to be defined when use_input_stats is",
    ),
    (lambda: F.local_response_norm(m, 2), ValueError, "Expected 3D or higher dimensionality input (got 2 dimensions)"),
    (
        lambda: F.cosine_similarity(m.long(), m.long()),
        RuntimeError, "cosine_similarity: expected common dtype to be floating point, yet common d",
    ),
    (lambda: F.max_pool1d(c, 2, padding=2), RuntimeError, "max_pool1d: pad should be at most half of effective kernel size, but got pa"),
    (
        lambda: F.max_unpool1d(c, sg.full((1, 2, 4), 99), 2),
        RuntimeError, "max_unpool1d: found an invalid max index, from 99 to 99, for output size [8",
    ),
    (lambda: F.unfold(img, 2, padding=-1), RuntimeError, "unfold: padding should be non-negative, but got (-1, -1)"),
    (lambda: F.pixel_shuffle(img, 0), RuntimeError, "pixel_shuffle expects a positive upscale_factor, but got 0"),
    (lambda: F.pixel_unshuffle(img, 0), RuntimeError, "pixel_unshuffle expects a positive downscale_factor, but got 0"),
    (lambda: F.channel_shuffle(m, 1), RuntimeError, "channel_shuffle expects input with > 2 dims, but got input with sizes [2, 3"),
    (lambda: F.channel_shuffle(img, 0), RuntimeError, "Number of groups to divide channels in must be positive. Value of groups:0"),
    (
        lambda: F.interpolate(img, 2, mode="bilinear", antialias=True),
        NotImplementedError, "interpolate: antialias=True is not supported; leave it False",
    ),
    (lambda: F.interpolate(m, 2), NotImplementedError, "Input Error: Only 3D, 4D and 5D input Tensors supported (got 2D) for the mo"),
    (lambda: nn.RNN(2, 2)(one), ValueError, "RNN: Expected input to be 2D or 3D, got 0D tensor instead"),
    (lambda: nn.Linear(2, 2).load_state_dict(3), TypeError, "Expected state_dict to be dict-like, got <class 'int'>."),
    (lambda: nn.Module().add_module("a.b", None), KeyError, 'contain "."'),
    (lambda: nn.Module().register_buffer("", None), KeyError, "be empty string"),
    (lambda: nn.Module().register_parameter("a.b", None), KeyError, 'contain "."'),
    (lambda: nn.utils.rnn.pad_sequence(3), RuntimeError, "pad_sequence: Expected iterable for input sequences, but got arg of type: <"),
    (lambda: nn.utils.rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
    (lambda: F.glu(x), RuntimeError, "glu: Halving dimension must be even, but dimension 0 is size 3"),
    (lambda: sg.cross(sg.ones(4), sg.ones(4)), RuntimeError, "no dimension of size 3 in input"),
    (
        lambda: sg.cat([sg.ones(2, 3), sg.ones(2, 4)], 0),
        RuntimeError, "Sizes of tensors must match except in dimension 0. Expected size 3 but got",
    ),
    (lambda: sg.multinomial(x, 4), RuntimeError, "cannot sample n_sample > prob_dist.size(-1) samples without replacement"),
    (lambda: x.clone().bernoulli_(sg.ones(2)), RuntimeError, "bernoulli cannot expand probabilities of shape (2,) to (3,)"),
    (lambda: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred, got shape [-1, -1] (reshape)"),
    (lambda: x.reshape(2), RuntimeError, "shape '[2]' is invalid for input of size 3 (reshape)"),
    (lambda: sg.ones(0).reshape(0, -1), RuntimeError, "cannot reshape tensor of 0 elements into shape [0, -1] because the unspecif"),
    (lambda: x.unfold(0, 4, 1), RuntimeError, "maximum size for tensor at dimension 0 is 3 but size is 4"),
    (lambda: sg.gather(m, 0, sg.ones(1, 1)), RuntimeError, "gather(): Expected dtype int32/int64 for index, got torch.float32"),
    (lambda: sg.normal(x, x, dtype=sg.float64), TypeError, "normal(): dtype= needs a size; numbers for given means or deviations have t"),
    (lambda: x * [1.0], TypeError, "mul(): arguments must be tensors or numbers, got list of 1: an operator tak"),
    (lambda: sg.autograd.grad(x, [3]), RuntimeError, "all inputs have to be Tensors or GradientEdges, but got int"),
    (lambda: sg.no_grad()(int), TypeError, "no_grad decorates functions; int is a class"),
    (lambda: sg.view_as_complex(x), RuntimeError, "Tensor must have a last dimension of size 2, got shape [3] (view_as_complex"),
    (lambda: sg.complex(x, x.double()), RuntimeError, "Expected object of scalar type float32 but got scalar type float64 for seco"),
    (
        lambda: F.scaled_dot_product_attention(sg.ones(1, 4, 2, 2), sg.ones(1, 3, 2, 2), sg.ones(1, 3, 2, 2), enable_gqa=True),
        RuntimeError, "Number of heads in key and value must divide the number of heads in query,",
    ),
    (lambda: m[0].clone().fill_diagonal_(1.0), RuntimeError, "dimensions must larger than 1"),
    (lambda: F.scaled_dot_product_attention(m, m, m, enable_gqa=True), IndexError, "heads stand in dimension -3, got [2, 3] and [2, 3]"),
    (lambda: sg.randint((3,)), TypeError, "randint() expects (high, size) or (low, high, size)"),
    (lambda: np.copyto(m.clone().long(), m), TypeError, "Cannot cast array data from float32 to int64"),
    (lambda: np.concatenate([m, m], dtype=np.int64), TypeError, "Cannot cast array data from float32 to int64"),
    (lambda: sg.lerp(x, x.double(), 0.5), RuntimeError, "lerp: expected dtype"),
    (lambda: m.scatter(0, i.reshape(1, 2), m, reduce="mean"), NotImplementedError, "reduce='mean' is not supported, only 'add'"),
    (lambda: sg.take_along_dim(m, m.int(), 0), RuntimeError, "torch.take_along_dim(): dtype of indices should be Long but got"),
    (lambda: sg.movedim(m, (0, 0), (0, 1)), RuntimeError, "movedim: repeated dim in `source`"),
    (lambda: nn.MultiheadAttention(4, 2)(*[sg.ones(3, 4)] * 3, attn_mask=sg.ones(9, 3, 3)), AssertionError, "`attn_mask` shape to be"),
    (lambda: F.conv2d(img, sg.ones(1, 4, 1, 1), stride=(1, 1, 1)), RuntimeError, "conv2d: stride: expected one number or 2"),
    (lambda: F.conv2d(img, sg.ones(1, 4, 1, 1), padding=(1, 1, 1)), RuntimeError, "conv2d: padding: expected one number or 2"),
    (lambda: F.conv1d(c, sg.ones(1, 2, 1), stride=0), RuntimeError, "conv1d: non-positive stride is not supported"),
    (lambda: F.conv1d(c, sg.ones(1, 2, 1), groups=0), RuntimeError, "conv1d: non-positive groups is not supported"),
    (lambda: F.conv1d(c, sg.ones(1, 2, 1), padding=-1), RuntimeError, "conv1d: negative padding is not supported"),
    (lambda: F.conv_transpose1d(c, sg.ones(2, 1, 1), groups=0), RuntimeError, "conv_transpose1d: non-positive groups is not supported"),
    (lambda: F.conv_transpose1d(c, sg.ones(2, 1, 1), padding=-1), RuntimeError, "conv_transpose1d: negative padding is not supported"),
    (lambda: F.conv_transpose1d(c, sg.ones(2, 1, 1), padding=9), RuntimeError, "Calculated output size per channel: "),
    (lambda: F.pad(c, (5, 0), mode="circular"), RuntimeError, "pad: Padding value causes wrapping around more than once"),
    (lambda: F.pad(c, (-4, 0), mode="circular"), RuntimeError, "is too small at dimension"),
    (lambda: F.binary_cross_entropy(x, x.double()), RuntimeError, "binary_cross_entropy: Found dtype"),
    (lambda: F.nll_loss(img, sg.ones(1, 2, 2).long()), RuntimeError, "Expected target size"),
    (lambda: F.avg_pool1d(c, 5), RuntimeError, "avg_pool1d: Given input size"),
]


@pytest.mark.parametrize("index", range(len(REFUSED)))
def test_refused(index):
    call, error, text = REFUSED[index]
    with pytest.raises(error, match=re.escape(text)):
        call()


def messages(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The lines of `require` and `raise` with the literal parts of their texts."""
    for node in ast.walk(tree):
        text: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require" and len(node.args) > 1:
            text = node.args[1]
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = node.exc.args[0]
        if text is not None:
            yield node.lineno, [x.value for x in ast.walk(text) if isinstance(x, ast.Constant) and isinstance(x.value, str)]


def is_named(parts: list[str], tests: str) -> bool:
    """Whether three words in a row of a message are in a test; true of messages that have no three."""
    runs = [" ".join(words[k : k + 3]) for words in map(str.split, parts) for k in range(len(words) - 2)]
    return not runs or any(run in tests for run in runs)


@pytest.mark.parametrize("folder", ["functional", "nn/functional", "interop"])
def test_every_refusal_is_tested(folder):
    here = Path(__file__).parent
    tests = "".join(path.read_text() for path in sorted(here.rglob("*.py"))).replace("\\", "")
    files = sorted((here.parent / "symgrad" / folder).glob("*.py"))
    found = [(file.name, line, parts) for file in files for line, parts in messages(ast.parse(file.read_text()))]
    assert len(found) > 10
    assert [x for x in found if not is_named(x[2], tests)] == []
