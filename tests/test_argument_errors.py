"""What is no tensor, or no integer, where one has to be: a TypeError that names function, argument and place."""

import copy

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F

x = sg.ones(2, 3)


@pytest.mark.parametrize("wrong", [(1.0, 2.0), {"a": 1.0}, None, "s"])
@pytest.mark.parametrize(
    "function",
    [sg.sin, sg.sum, sg.logit, sg.reshape, sg.sort, sg.chunk, F.gelu, F.softmax, F.mse_loss, sg.linalg.inv],
    ids=lambda f: f.__name__,
)
def test_no_tensor_where_one_has_to_be(function, wrong):
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\).* must be Tensor, not {type(wrong).__name__}"):
        function(wrong, *((wrong,) if function is F.mse_loss else (2,) if function in (sg.reshape, sg.chunk, F.softmax) else ()))


@pytest.mark.parametrize("function", [sg.outer, sg.kron, sg.inner, F.mse_loss], ids=lambda f: f.__name__)
def test_a_tuple_does_not_pass_for_the_second_tensor(function):
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\): argument '\w+' \(position 2\) must be Tensor, not tuple"):
        function(x[0], (1.0, 1.0, 1.0))


def test_the_place_of_the_argument_is_named():
    with pytest.raises(TypeError, match=r"index_select\(\): argument 'index' \(position 3\) must be Tensor, not tuple"):
        sg.index_select(x, 0, (0,))
    with pytest.raises(TypeError, match=r"cumsum\(\): argument 'dim' must be int, not float"):
        sg.cumsum(x, dim=1.5)
    with pytest.raises(TypeError, match=r"linear\(\): argument 'bias' \(position 3\) must be Tensor, not str"):
        F.linear(x, sg.ones(4, 3), "1.0")


def test_other_errors_keep_their_words():
    with pytest.raises(IndexError, match="Dimension out of range"):
        sg.cumsum(x, 5)
    assert sg.cumsum(x, np.int64(1)).tolist() == [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]


def test_choosing_between_numbers_gives_the_default_float():
    assert sg.where(sg.tensor([True, False]), 1.0, 0).dtype is sg.float32


def test_a_zero_remainder_has_the_sign_of_the_dividend():
    assert str(sg.remainder(sg.tensor([0.0, 4.0, -4.0, 3.0]), -2)) == "tensor([ 0.,  0., -0., -1.])"


def test_half_precision_keeps_to_rows_without_a_shape():
    assert sg.tensor([0.0, 2.0]).half().nonzero().tolist() == [[1]]


def test_cosines_of_broadcast_vectors_stay_in_their_range():
    x, y = sg.tensor([[[1.0, 2.0], [3.0, 4.0]]]), sg.tensor([[[1.0, 5.0]], [[2.0, 0.5]]])
    assert F.cosine_similarity(x, y, dim=-2).abs().max() <= 1


def test_dot_products_of_vectors_with_numbers():
    assert sg.linalg.vecdot(sg.arange(3.0), sg.tensor(2.0)).item() == 6.0
    assert F.cosine_similarity(sg.tensor([[3, 4]]), sg.tensor([[3.0, 4.0]])).item() == pytest.approx(1)
    assert F.adaptive_avg_pool2d(sg.ones(1, 2, 4, 4), (0, 3)).shape == (1, 2, 0, 3)


def test_root_mean_squares_beyond_half_precision():
    x = sg.tensor([300.0, 500.0], dtype=sg.float16, requires_grad=True)
    F.rms_norm(x, [2]).sum().backward()
    assert bool(x.grad.isfinite().all())


def test_a_list_of_lists_is_one_index_for_each_dimension():
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert sg.arange(12.0).view(3, 4)[[[0, 1], [1, 2]]].tolist() == [1.0, 6.0]
    with pytest.raises(TypeError, match="does not support deleting"):
        del x[0]


def test_python_numbers_have_to_fit():
    with pytest.raises(RuntimeError, match="cannot be converted to type uint8 without overflow: 300"):
        sg.tensor([1, 300], dtype=sg.uint8)
    assert sg.tensor([-1], dtype=sg.uint8).tolist() == [255]


def test_deep_copies_share_what_was_shared():
    whole = sg.arange(6.0).view(2, 3)
    both = copy.deepcopy([whole, whole[1], whole.t()])
    both[0][1, 0] = 9
    assert both[1].tolist() == [9.0, 4.0, 5.0]
    assert both[2].tolist() == [[0.0, 9.0], [1.0, 4.0], [2.0, 5.0]]
    assert whole[1].tolist() == [3.0, 4.0, 5.0]


def test_numpy_numbers_leave_the_type_to_the_tensor():
    wide = np.float64(0.1)
    for out in (
        x.clamp(wide, np.float64(2)), x.norm(np.float64(3)), sg.logit(x / 2, wide), sg.addcdiv(x, x, x, value=wide), x ** np.float64(2.5),
        F.leaky_relu(x, wide), F.softplus(x, np.float64(2)), F.huber_loss(x, x, delta=wide), x.round(decimals=np.int64(1)),
    ):  # fmt: skip
        assert out.dtype is sg.float32
    w = sg.ones(2, requires_grad=True)
    (w ** np.float64(3)).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_refused_writes_leave_the_tensor_alone():
    y = sg.ones(2)
    with pytest.raises(RuntimeError, match="bool tensor is not supported"):
        y.sub_(sg.tensor([True, False]))
    with pytest.raises(RuntimeError, match="cannot be converted"):
        y.masked_fill_(sg.tensor([True, False]), 1j)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        sg.lerp(sg.arange(2), sg.arange(2), 0.5)
    assert y.tolist() == [1.0, 1.0]
    assert y._version == 0


def test_padding_that_crops_on_one_side():
    line = sg.arange(4.0).view(1, 4)
    assert F.pad(line, [-1, 2], "reflect").tolist() == [[1.0, 2.0, 3.0, 2.0, 1.0]]
    assert F.pad(line, [-3, 2], "replicate").tolist() == [[3.0, 3.0, 3.0]]
    assert F.pad(line, [-1, 2], "circular").tolist() == [[1.0, 2.0, 3.0, 1.0, 2.0]]


def test_layers_want_parameters_of_the_right_type_and_size():
    image, double = sg.ones(2, 3, 4), sg.ones(3, dtype=sg.float64)
    for call, error, words in (
        (lambda: F.layer_norm(image, [3, 4], sg.ones(4)), RuntimeError, r"weight of shape \[4\] and normalized_shape = \[3, 4\]"),
        (lambda: F.layer_norm(image, [4], sg.ones(4), sg.ones(4).double()), RuntimeError, "scalar type Float but found Double for bias"),
        (lambda: F.rms_norm(image, [4], sg.ones(1)), RuntimeError, r"weight of shape \[1\]"),
        (lambda: F.batch_norm(image, None, None, double, training=True), RuntimeError, "batch_norm: .* found Double for weight"),
        (lambda: F.batch_norm(image.long(), None, None, training=True), NotImplementedError, "not implemented for 'Long'"),
        (lambda: F.group_norm(image, 1, double), RuntimeError, "group_norm: .* found Double for weight"),
        (lambda: F.conv1d(image, sg.ones(3, 3, 2), double), RuntimeError, "conv1d: .* found Double for bias"),
        (lambda: F.conv_transpose1d(image, sg.ones(3, 3, 2).double()), RuntimeError, "found Double for weight"),
        (lambda: F.prelu(image, double), RuntimeError, "Got Float and Double"),
        (lambda: F.binary_cross_entropy(sg.ones(2), sg.ones(2).double()), RuntimeError, "Found dtype Double but expected Float"),
        (lambda: F.adaptive_avg_pool1d(image.long(), 2), NotImplementedError, "not implemented for 'Long'"),
        (lambda: F.pad(image, [-5, -5], "reflect"), RuntimeError, "too small"),
        (lambda: F.linear(image, sg.ones(4), sg.ones(1)), RuntimeError, "mat2 must be a matrix"),
        (lambda: F.linear(sg.ones(2), sg.ones(2, 2, 2)), RuntimeError, "t\\(\\) expects a tensor with <= 2 dimensions, but self is 3D"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_slices_are_written_as_they_are():
    x, places = sg.zeros(3, 2), sg.tensor([0, 1])
    for name, source, error, words in (
        ("index_add", sg.ones(2, 1), RuntimeError, r"self.shape = \[3, 2\] source.shape = \[2, 1\]"),
        ("index_add", sg.ones(2), RuntimeError, "source tensor shape must match"),
        ("index_add", sg.ones(1, 2), RuntimeError, r"Number of indices \(2\)"),
        ("index_copy", sg.ones(2, 1), RuntimeError, "source tensor shape must match"),
        ("index_copy", sg.ones(2), IndexError, "dimensionality must match"),
        ("index_copy", sg.ones(1, 2), IndexError, r"Number of indices \(2\)"),
    ):
        for ending in ("", "_"):
            with pytest.raises(error, match=words):
                getattr(x, name + ending)(0, places, source)
    assert x.tolist() == [[0.0, 0.0]] * 3


def test_statistics_stay_as_they_were_when_a_layer_refuses():
    mean, var = sg.zeros(3), sg.ones(3)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.instance_norm(sg.ones(2, 3, 4).long(), mean, var)
    assert mean.tolist() == [0.0] * 3
    assert var._version == 0


def test_half_precision_takes_single_parameters():
    assert F.layer_norm(sg.ones(2, 4).half(), [4], sg.ones(4)).shape == (2, 4)


def test_refusals_of_shapes_and_pieces():
    assert sg.broadcast_shapes((2, 1), (3,), 1) == sg.Size([2, 3])
    for call, error, words in (
        (lambda: sg.broadcast_shapes((2, 3), (4,)), RuntimeError, "must match the size"),
        (lambda: sg.hsplit(sg.ones(4), 0), RuntimeError, "not divisible by the split_size 0"),
        (lambda: sg.roll(sg.tensor(1.0), 0, 0), IndexError, "has no dimensions"),
        (lambda: sg.narrow(sg.ones(3), 0, sg.tensor([1]), 1), RuntimeError, "0-dim integral"),
        (lambda: sg.tensor(1.0).unflatten(0, (2, 2)), RuntimeError, "don't multiply up"),
        (lambda: sg.amax(sg.tensor([1j])), NotImplementedError, "complex"),
        (lambda: sg.aminmax(sg.ones(0), dim=0), IndexError, "non-zero size"),
    ):
        with pytest.raises(error, match=words):
            call()
