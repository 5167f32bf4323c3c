"""What leaves a tensor for Python and NumPy, and copies of tensors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import symgrad as sg


@pytest.fixture
def x() -> sg.Tensor:
    return sg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)


class TestLeavingForPython:
    def test_item(self):
        assert type(sg.tensor(2).item()) is int
        assert type(sg.tensor([[2.5]]).item()) is float
        assert type(sg.tensor(True).item()) is bool
        assert sg.tensor(1 + 2j).item() == 1 + 2j
        assert type(sg.tensor(1.5).bfloat16().item()) is float
        for n in (0, 3):
            with pytest.raises(RuntimeError, match=f"a Tensor with {n} elements cannot be converted to Scalar"):
                sg.ones(n).item()

    def test_tolist(self, x):
        assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
        assert sg.tensor(1.5).tolist() == 1.5
        assert sg.tensor([1.5]).bfloat16().tolist() == [1.5]

    def test_truth(self):
        assert bool(sg.tensor([[2.0]]))
        assert not sg.tensor(0)
        with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
            bool(sg.ones(2))
        with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
            bool(sg.ones(0))
        assert sg.is_nonzero(sg.tensor([1]))

    def test_numbers(self):
        assert (int(sg.tensor(2.7)), float(sg.tensor([2.5])), complex(sg.tensor(1j))) == (2, 2.5, 1j)
        for number in (int, float, complex):
            with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
                number(sg.ones(3))
        with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
            float(sg.tensor(1j))

    def test_index(self):
        assert [1, 2, 3][sg.tensor(1)] == 2
        assert list(range(sg.tensor([2]))) == [0, 1]
        for wrong in (sg.tensor(1.0), sg.tensor([1, 2])):
            with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
                [1, 2, 3][wrong]

    def test_a_sequence_of_rows(self, x):
        assert len(x) == 2
        first, second = x
        (second * 2).sum().backward()
        assert x.grad.tolist() == [[0, 0, 0], [2, 2, 2]]
        assert first.shape == (3,)
        with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
            len(sg.tensor(1))
        with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
            iter(sg.tensor(1))

    def test_reversed_is_a_tensor(self, x):
        assert reversed(x).tolist() == [[4, 5, 6], [1, 2, 3]]
        assert reversed(x).requires_grad

    def test_contains(self, x):
        assert 3.0 in x
        assert 7 not in x
        assert sg.tensor(3.0) in x
        with pytest.raises(RuntimeError, match="only supports Tensor or scalar, but you passed in a <class 'str'>"):
            "a" in x  # noqa: B015  (it raises)

    def test_format(self, x):
        assert f"{sg.tensor(1.5):.2f} {sg.tensor(3)} {sg.tensor(1.5)}" == "1.50 3 1.5"
        assert f"{sg.ones(2)}" == str(sg.ones(2)) == "tensor([1., 1.])"
        with pytest.raises(TypeError, match="unsupported format string"):
            f"{x:.2f}"


class TestLeavingForNumPy:
    def test_numpy_shares_memory(self):
        t = sg.ones(3)
        array = t.numpy()
        array[0] = 5
        t.add_(1)
        assert array.tolist() == t.tolist() == [6, 2, 2]
        array.shape = (3, 1)  # the array is the caller's own
        assert t.shape == (3,)

    def test_history_is_not_lost_silently(self, x):
        for leave in (x.numpy, lambda: np.asarray(x), lambda: np.array(x * 2)):
            with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad\. Use tensor\.detach\(\)"):
                leave()
        assert x.numpy(force=True).tolist() == x.tolist()

    def test_array(self):
        t = sg.ones(3)
        assert np.shares_memory(np.asarray(t), t.numpy())
        assert not np.shares_memory(np.array(t), t.numpy())
        assert np.asarray(t, dtype=np.int32).dtype == np.int32
        with pytest.raises(ValueError, match="without a copy"):
            np.array(t, dtype=np.float64, copy=False)


class TestCopies:
    def test_clone_is_recorded(self, x):
        y = x.clone()
        assert y.grad_fn.name() == "CloneBackward0"
        y.mul_(2)
        y.sum().backward()
        assert x.tolist()[0] == [1, 2, 3]
        assert x.grad.tolist()[0] == [2, 2, 2]

    def test_deepcopy(self, x):
        x.grad = sg.ones(2, 3)
        pair = copy.deepcopy([x, x])
        assert pair[0] is pair[1] is not x
        assert pair[0].requires_grad
        assert pair[0].grad.tolist() == x.grad.tolist()
        pair[0].data.zero_()
        assert x.tolist()[0] == [1, 2, 3]
        with pytest.raises(RuntimeError, match=r"Only Tensors created explicitly by the user \(graph leaves\)"):
            copy.deepcopy(x * 2)

    def test_copy_shares_memory(self, x):
        y = copy.copy(x)
        assert y is not x
        assert y.data_ptr() == x.data_ptr()
        assert y.requires_grad

    @pytest.mark.parametrize("make", [lambda t: t, lambda t: t.detach().t(), lambda t: t.detach().bfloat16(), lambda t: t * 2])
    def test_pickle(self, x, make):
        t = make(x)
        back = pickle.loads(pickle.dumps(t))
        assert (back.dtype, back.shape, back.requires_grad, back.is_leaf) == (t.dtype, t.shape, t.requires_grad, True)
        assert back.tolist() == t.tolist()

    def test_pickled_types_are_the_same_objects(self):
        for value in (sg.float32, sg.bfloat16, sg.strided, sg.channels_last, sg.device("cuda:1")):
            back = pickle.loads(pickle.dumps(value))
            assert back == value
        assert pickle.loads(pickle.dumps(sg.float32)) is sg.float32
