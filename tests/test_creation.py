"""Making tensors: from data, from sizes, and in old ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import symgrad as sg


def same(t: sg.Tensor, expected: object, dtype: sg.dtype) -> None:
    assert t.dtype is dtype
    np.testing.assert_array_equal(t.detach().numpy(), np.array(expected))


class TestFromData:
    @pytest.mark.parametrize(
        ("data", "dtype"),
        [
            (3, sg.int64),
            (True, sg.bool),
            (1.5, sg.float32),
            (1j, sg.complex64),
            ([1, 2], sg.int64),
            ([1, 2.5], sg.float32),
            ([True, False], sg.bool),
            ([True, 2], sg.int64),
            ([[1, 2], [3, 4.5]], sg.float32),
            ((1, 2), sg.int64),
            (range(3), sg.int64),
            ([1, 2j], sg.complex64),
            (np.float64(1.5), sg.float64),
            ([np.float64(1.5)], sg.float64),
            ([np.float16(1.5), 1.0], sg.float32),
            ([np.int32(1)], sg.int32),
            (np.array([1, 2], np.int16), sg.int16),
            (np.array([1.0, 2.0]), sg.float64),
        ],
    )
    def test_type_is_inferred(self, data, dtype):
        same(sg.tensor(data), data, dtype)

    @pytest.mark.parametrize(("data", "shape"), [([], (0,)), ([[], []], (2, 0)), ([[[]]], (1, 1, 0))])
    def test_empty_lists(self, data, shape):
        t = sg.tensor(data)
        assert t.shape == shape
        assert t.dtype is sg.float32

    @settings(max_examples=50, deadline=None)
    @given(arrays(np.int64, array_shapes(max_dims=4, max_side=4), elements=st.integers(-9, 9)), st.sampled_from([int, float, bool]))
    def test_lists_go_there_and_back(self, array, number):
        data = array.astype(number).tolist()
        t = sg.tensor(data)
        assert t.shape == array.shape
        assert t.dtype is {int: sg.int64, float: sg.float32, bool: sg.bool}[number]
        assert t.tolist() == data

    def test_tensors_inside_lists_are_numbers(self):
        same(sg.tensor([sg.tensor(1.0), sg.tensor(2)]), [1.0, 2.0], sg.float32)
        same(sg.tensor([[sg.ones(1, dtype=sg.float64)], [3]]), [[1.0], [3.0]], sg.float64)
        same(sg.tensor([1, sg.tensor(2.5, requires_grad=True)]), [1, 2.5], sg.float32)
        with pytest.raises(ValueError, match="only one element tensors can be converted"):
            sg.tensor([sg.ones(2), sg.ones(2)])

    def test_default_dtype_rules(self):
        sg.set_default_dtype(sg.float64)
        try:
            assert sg.tensor([1.5]).dtype is sg.float64
            assert sg.tensor(1j).dtype is sg.complex128
            assert sg.zeros(2).dtype is sg.rand(2).dtype is sg.arange(2.0).dtype is sg.float64
        finally:
            sg.set_default_dtype(sg.float32)

    @pytest.mark.parametrize(
        ("data", "error", "text"),
        [
            ([[1, 2, 3], [1, 2]], ValueError, r"expected sequence of length 3 at dim 1 \(got 2\)"),
            ([[[1, 2], [3, 4]], [[1, 2], [3]]], ValueError, r"expected sequence of length 2 at dim 2 \(got 1\)"),
            ([[2], 1], TypeError, "not a sequence"),
            ([1, [2]], TypeError, "'list' object cannot be interpreted as an integer"),
            ("abc", TypeError, "invalid data type 'str'"),
            (["a"], ValueError, "too many dimensions 'str'"),
            (None, RuntimeError, "Could not infer dtype of NoneType"),
            ([1, None], RuntimeError, "Could not infer dtype of NoneType"),
            ({1: 2}, RuntimeError, "Could not infer dtype of dict"),
            (2**63, ValueError, "Overflow when unpacking long long"),
            ([1, 2**64], ValueError, "Overflow when unpacking long long"),
            (np.array(["a"]), TypeError, "can't convert np.ndarray of type numpy.str_"),
        ],
    )
    def test_bad_data(self, data, error, text):
        with pytest.raises(error, match=text):
            sg.tensor(data)

    def test_a_type_that_is_asked_for(self):
        same(sg.tensor([1.7, -1.7], dtype=sg.int32), [1, -1], sg.int32)
        same(sg.tensor(2, dtype=float), 2.0, sg.float64)
        with pytest.raises(RuntimeError, match="uint8 without overflow"):
            sg.tensor(300, dtype=sg.uint8)
        with pytest.raises(TypeError, match="must be real number, not complex"):
            sg.tensor([1j], dtype=sg.float32)
        with pytest.raises(TypeError, match="dtype"):
            sg.tensor([1], dtype="float32")

    def test_what_is_too_large_becomes_infinite_without_a_warning(self):
        inf = float("inf")
        assert sg.tensor([1e300, 1]).tolist() == [inf, 1]
        assert sg.tensor(1e300).item() == sg.full((1,), 1e300).item() == sg.tensor(1e300, dtype=sg.float16).item() == inf
        assert sg.tensor([2**70, 0.5]).tolist() == [2.0**70, 0.5]
        assert sg.tensor(2**70, dtype=sg.float64).item() == 2.0**70
        assert sg.tensor([0.1], dtype=sg.float64).item() == 0.1  # rounded once
        assert sg.arange(0, 1e6, 3e5, dtype=sg.float16).tolist() == [0, inf, inf, inf]
        assert sg.ones(16, dtype=sg.float16).normal_(1e6, 1).tolist() == [inf] * 16

    def test_only_floats_require_grad(self):
        assert sg.tensor([1.0], requires_grad=True).requires_grad
        for make in (lambda: sg.tensor([1], requires_grad=True), lambda: sg.zeros(2, dtype=sg.bool, requires_grad=True)):
            with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
                make()

    def test_tensor_copies_and_from_numpy_shares(self):
        array = np.zeros(3)
        copied, shared = sg.tensor(array), sg.from_numpy(array)
        array[0] = 7
        assert copied.tolist() == [0, 0, 0]
        shared.add_(1)
        assert array.tolist() == [8, 1, 1]

    def test_from_numpy_refuses(self):
        with pytest.raises(ValueError, match="negative"):
            sg.from_numpy(np.ones(3)[::-1])
        with pytest.raises(ValueError, match="byte order"):
            sg.from_numpy(np.ones(3, ">f8"))
        with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
            sg.from_numpy([1])

    def test_read_only_memory_is_shared_with_a_warning_and_never_written(self):
        array = np.ones(3)
        array.flags.writeable = False
        with pytest.warns(UserWarning, match="not writable"):
            t = sg.from_numpy(array)
        with pytest.raises(RuntimeError, match="read-only"):
            t.add_(1)
        assert array.tolist() == [1, 1, 1]

    def test_copying_a_tensor_warns(self):
        x = sg.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="To copy construct from a tensor"):
            y = sg.tensor(x)
        assert y.is_leaf
        assert not y.requires_grad

    def test_as_tensor_shares_where_it_can(self):
        x, array = sg.ones(2, requires_grad=True), np.zeros(2)
        assert sg.as_tensor(x) is x
        assert sg.as_tensor(x, dtype=sg.float64).grad_fn is not None
        assert np.shares_memory(sg.as_tensor(array).numpy(), array)
        assert not np.shares_memory(sg.as_tensor(array, dtype=sg.float32).numpy(), array)

    def test_asarray(self):
        x, array = sg.ones(2), np.zeros(2)
        assert sg.asarray(x) is x
        assert sg.asarray(x, copy=True) is not x
        assert np.shares_memory(sg.asarray(array, copy=False).numpy(), array)
        assert not np.shares_memory(sg.asarray(array, copy=True).numpy(), array)
        assert sg.asarray([1.0], requires_grad=True).requires_grad
        with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'"):
            sg.asarray(x, dtype=sg.float64, copy=False)
        with pytest.raises(ValueError, match="can't alias"):
            sg.asarray([1.0], copy=False)

    def test_frombuffer(self):
        memory = bytearray(np.arange(4, dtype=np.float32).tobytes())
        t = sg.frombuffer(memory, dtype=sg.float32, count=2, offset=4)
        t.mul_(10)
        assert np.frombuffer(memory, np.float32).tolist() == [0, 10, 20, 3]


class TestFromSizes:
    @pytest.mark.parametrize("size", [(2, 3), ((2, 3),), ([2, 3],), (sg.Size((2, 3)),), (np.int64(2), sg.tensor(3))])
    @pytest.mark.parametrize("make", [sg.zeros, sg.ones, sg.empty, sg.rand, sg.randn])
    def test_sizes_come_in_all_forms(self, make, size):
        assert make(*size).shape == (2, 3)

    def test_size_as_keyword(self):
        assert sg.zeros(size=(2,)).shape == sg.rand(size=[2]).shape == (2,)

    @pytest.mark.parametrize("make", [sg.zeros, sg.rand])
    def test_bad_sizes(self, make):
        with pytest.raises(RuntimeError, match="negative"):
            make(2, -1)
        for size in (2.5, "a", True):
            with pytest.raises(TypeError, match="must be tuple of ints"):
                make(size)
        with pytest.raises(TypeError, match='missing 1 required positional arguments: "size"'):
            make()
        with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
            make(2, foo=1)

    def test_full_infers_its_type(self):
        same(sg.full([2, 2], 9), [[9, 9], [9, 9]], sg.int64)
        same(sg.full((1,), 1.5), [1.5], sg.float32)
        same(sg.full((1,), True), [True], sg.bool)
        same(sg.full((1,), sg.tensor(3)), [3], sg.int64)
        with pytest.raises(TypeError, match="must be tuple of ints, not int"):
            sg.full(3, 2)

    def test_arange(self):
        same(sg.arange(3), [0, 1, 2], sg.int64)
        same(sg.arange(1, 3, 0.4), np.array([1, 1.4, 1.8, 2.2, 2.6], np.float32), sg.float32)
        same(sg.arange(5, 1, -2), [5, 3], sg.int64)
        same(sg.arange(end=2), [0, 1], sg.int64)
        same(sg.arange(start=1, end=3), [1, 2], sg.int64)
        same(sg.arange(0.5, 3, dtype=sg.int32), [0, 1, 2], sg.int32)
        for bounds, text in (((5, 1), "inconsistent with step sign"), ((0, 5, 0), "nonzero"), ((float("inf"),), "unsupported")):
            with pytest.raises(RuntimeError, match=text):
                sg.arange(*bounds)

    def test_linspace_and_logspace_reach_both_ends(self):
        t = sg.linspace(0.1, 0.7, 101).tolist()
        assert (t[0], t[-1]) == (np.float32(0.1), np.float32(0.7))
        same(sg.linspace(0, 10, 5, dtype=sg.int64), [0, 2, 5, 7, 10], sg.int64)
        same(sg.linspace(3, 4, 1), [3], sg.float32)
        same(sg.logspace(0, 2, 3), [1, 10, 100], sg.float32)
        with pytest.raises(RuntimeError, match="number of steps must be non-negative"):
            sg.linspace(0, 1, -1)

    def test_eye(self):
        same(sg.eye(2, 3), [[1, 0, 0], [0, 1, 0]], sg.float32)
        with pytest.raises(RuntimeError, match="n must be greater or equal to 0, got -1"):
            sg.eye(-1)

    def test_like_and_new_keep_the_type(self):
        x = sg.ones(2, 3, dtype=sg.float64, requires_grad=True)
        for like in (sg.zeros_like(x), sg.ones_like(x), sg.empty_like(x), sg.full_like(x, 3), sg.rand_like(x), sg.randn_like(x)):
            assert (like.shape, like.dtype, like.requires_grad) == (x.shape, sg.float64, False)
        for new in (x.new_zeros(2, 2), x.new_ones((2, 2)), x.new_empty(2, 2), x.new_full((2, 2), 3), x.new(2, 2)):
            assert (new.shape, new.dtype) == ((2, 2), sg.float64)
        same(x.new_tensor([1, 2]), [1.0, 2.0], sg.float64)
        same(x.new_ones(2, dtype=sg.int32), [1, 1], sg.int32)
        same(sg.full_like(sg.tensor([1]), 2.5), [2], sg.int64)
        assert sg.zeros_like(x, requires_grad=True).requires_grad
        with pytest.raises(TypeError, match=r"zeros_like\(\): argument 'input' \(position 1\) must be Tensor, not str"):
            sg.zeros_like("3")

    def test_out(self):
        out = sg.ones(3)
        assert sg.zeros(3, out=out) is out
        assert out.tolist() == [0, 0, 0]
        assert sg.arange(5, out=out) is out
        assert out.tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(RuntimeError, match=r"dtype Long does not match dtype of out parameter \(Float\)"):
            sg.zeros(5, out=out, dtype=sg.int64)
        leaf = sg.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            sg.zeros(3, out=leaf)
        assert leaf.tolist() == [1, 1]

    def test_keywords_of_memory_are_accepted(self):
        t = sg.zeros(2, layout=sg.strided, device="cpu", pin_memory=False, memory_format=sg.contiguous_format)
        assert t.tolist() == [0, 0]


class TestOldConstructors:
    def test_tensor_of_sizes_and_of_values(self):
        assert sg.Tensor(3, 4).shape == sg.Tensor(sg.Size([3, 4])).shape == (3, 4)
        assert sg.Tensor().shape == (0,)
        t = sg.ones(2)
        assert sg.Tensor(t).data_ptr() == sg.FloatTensor(t).data_ptr() == t.data_ptr()
        same(sg.Tensor([1, 2]), [1.0, 2.0], sg.float32)
        same(sg.Tensor((2, 3)), [2.0, 3.0], sg.float32)
        same(sg.Tensor(np.array([1, 2])), [1.0, 2.0], sg.float32)
        with pytest.raises(TypeError, match=r"data must be a sequence \(got float\)"):
            sg.Tensor(3.5)

    def test_typed_constructors(self):
        same(sg.LongTensor([1.5, 2]), [1, 2], sg.int64)
        same(sg.DoubleTensor([1]), [1.0], sg.float64)
        assert sg.ByteTensor(2, 3).dtype is sg.uint8
        assert isinstance(sg.ones(1), sg.FloatTensor)
        assert not isinstance(sg.ones(1), sg.LongTensor)
        assert repr(sg.FloatTensor) == "<class 'torch.FloatTensor'>"
        with pytest.raises(TypeError, match=r"expected a tensor of torch.int64, got one of torch.float32"):
            sg.LongTensor(sg.ones(1))

    def test_cuda_types_exist_and_refuse(self):
        assert repr(sg.cuda.FloatTensor) == "<class 'torch.cuda.FloatTensor'>"
        with pytest.raises(RuntimeError, match="device 'cuda' is not available"):
            sg.cuda.FloatTensor([1])

    def test_default_tensor_type(self):
        sg.set_default_tensor_type("torch.DoubleTensor")
        try:
            assert sg.Tensor([1]).dtype is sg.float64
        finally:
            sg.set_default_tensor_type(sg.FloatTensor)
        assert sg.Tensor([1]).dtype is sg.float32
