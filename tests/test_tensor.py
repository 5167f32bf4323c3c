"""A tensor's attributes, its gradient, its types, and subclasses of it."""

from __future__ import annotations

import copy
import pickle
from importlib import metadata

import numpy as np
import pytest

import symgrad as sg


@pytest.fixture
def x() -> sg.Tensor:
    return sg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)


class TestAttributes:
    def test_sizes(self, x):
        assert x.shape == x.size() == (2, 3)
        assert isinstance(x.shape, sg.Size)
        assert repr(x.shape) == "torch.Size([2, 3])"
        assert x.is_same_size(sg.zeros(2, 3))
        assert (x.size(0), x.size(-1), x.dim(), x.ndim, x.ndimension()) == (2, 3, 2, 2, 2)
        assert (x.numel(), x.nelement(), sg.numel(x), x.element_size(), x.itemsize, x.nbytes) == (6, 6, 6, 4, 4, 24)
        with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"):
            x.size(2)

    def test_a_size_stays_a_size(self):
        size = sg.Size([2, 3])
        assert repr(size + (1,)) == "torch.Size([2, 3, 1])"  # noqa: RUF005  (this is what is tested)
        assert repr((1,) + size) == "torch.Size([1, 2, 3])"  # noqa: RUF005  (the operator itself is tested)
        assert repr(size * 2) == "torch.Size([2, 3, 2, 3])"
        assert repr(size[:1]) == "torch.Size([2])"
        assert (size[1], size.numel()) == (3, 6)

    def test_memory(self, x):
        view = x.detach().t()
        assert (x.stride(), view.stride(), view.stride(0)) == ((3, 1), (1, 3), 1)
        assert (x.is_contiguous(), view.is_contiguous()) == (True, False)
        assert (x.storage_offset(), x[1, 1:].storage_offset()) == (0, 4)
        assert x.data_ptr() == view.data_ptr()
        assert x.layout is sg.strided

    def test_place(self, x):
        assert x.device == sg.device("cpu")
        assert (x.is_cpu, x.is_cuda, x.is_sparse, x.get_device(), x.is_pinned()) == (True, False, False, -1, False)

    def test_kind(self, x):
        assert (sg.is_tensor(x), sg.is_tensor(np.ones(1))) == (True, False)
        assert (x.is_floating_point(), sg.is_floating_point(x.int()), x.is_complex()) == (True, False, False)
        assert (x.is_signed(), x.byte().is_signed()) == (True, False)
        assert sg.typename(x) == "torch.FloatTensor"

    def test_name(self, x):
        assert x.name is None
        x.name = "weights"
        assert copy.deepcopy(x).name == "weights"

    def test_leaves(self, x):
        y = x * 2
        assert (x.is_leaf, y.is_leaf, y.detach().is_leaf) == (True, False, True)
        assert x.grad_fn is None
        assert y.grad_fn.name() == "MulBackward0"


class TestRequiresGrad:
    def test_leaves_can_change(self):
        t = sg.ones(2)
        assert t.requires_grad_() is t
        assert t.requires_grad
        t.requires_grad = False
        assert not (t * 2).requires_grad

    def test_computed_tensors_cannot(self, x):
        y = x * 2
        assert y.requires_grad_() is y
        with pytest.raises(RuntimeError, match=r"you can only change requires_grad flags of leaf variables\. If you want"):
            y.requires_grad = False
        with pytest.raises(RuntimeError, match=r"you can only change requires_grad flags of leaf variables\."):
            y.requires_grad = True
        assert y.requires_grad

    @pytest.mark.parametrize("dtype", [sg.int64, sg.bool, sg.uint8])
    def test_integers_cannot(self, dtype):
        t = sg.ones(2, dtype=dtype)
        with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"):
            t.requires_grad_()
        assert not t.requires_grad


class TestGrad:
    def test_what_can_be_assigned(self, x):
        x.grad = sg.ones(2, 3)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [[3, 3, 3], [3, 3, 3]]
        x.grad = None
        assert x.grad is None
        for wrong, error, text in (
            (1, TypeError, "assigned grad expected to be a Tensor or None but got grad of type int"),
            (sg.ones(3), RuntimeError, r"a gradient of size '\[3\]' to a tensor of size '\[2, 3\]'"),
            (sg.ones(2, 3, dtype=sg.float64), RuntimeError, "a gradient with dtype 'double' to a tensor with grad_dtype 'Float'"),
            (x, RuntimeError, "can't assign Variable as its own grad"),
        ):
            with pytest.raises(error, match=text):
                x.grad = wrong
            assert x.grad is None

    def test_asking_a_computed_tensor_warns(self, x):
        y = x * 2
        with pytest.warns(UserWarning, match=r"The \.grad attribute of a Tensor that is not a leaf Tensor is being accessed"):
            assert y.grad is None


class TestData:
    def test_shares_memory_and_nothing_else(self, x):
        y = (x * x).sum()
        x.data.mul_(2)  # not noticed, as in PyTorch
        assert not x.data.requires_grad
        y.backward()
        assert x.tolist()[0] == [2, 4, 6]

    def test_update_through_data(self, x):
        x.data -= 1
        assert x.tolist()[0] == [0, 1, 2]
        assert x.is_leaf
        assert x.requires_grad

    def test_another_tensor_takes_the_place(self, x):
        new = sg.zeros(4, dtype=sg.float64)
        x.data = new
        assert (x.shape, x.dtype, x.requires_grad) == ((4,), sg.float64, True)
        assert x.data_ptr() == new.data_ptr()
        with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
            x.data = sg.zeros(4, dtype=sg.int64)
        with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
            x.data = 3

    def test_a_view_comes_loose(self):
        base = sg.zeros(3)
        view = base[:2]
        view.data = sg.ones(2)
        view.add_(1)
        assert base.tolist() == [0, 0, 0]
        assert (base._version, view._version) == (0, 1)


class TestDetach:
    def test_shares_memory_and_version(self, x):
        y = x * 2
        z = (y * y).sum()
        y.detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()

    def test_in_place(self, x):
        y = x * 2
        assert y.detach_() is y
        assert (y.is_leaf, y.requires_grad) == (True, False)
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            (x * 2)[0].detach_()


class TestTo:
    def test_itself_if_nothing_changes(self, x):
        for same in (x.to(sg.float32), x.to("cpu"), x.to(sg.device("cpu"), sg.float32), x.to(x), x.float(), x.cpu(), x.to(), x.to(None)):
            assert same is x
        assert x.to(sg.float32, copy=True) is not x
        assert x.to(sg.float32, False, True).data_ptr() != x.data_ptr()

    def test_all_forms(self, x):
        other = sg.ones(1, dtype=sg.float64)
        for given in (
            x.to(sg.float64), x.to("cpu", sg.float64), x.to(device="cpu", dtype=sg.float64), x.to(other), x.to(other=other),
            x.to(sg.float64, non_blocking=True), x.to(float), x.double(), x.type(sg.float64), x.type("torch.DoubleTensor"),
            x.type(sg.DoubleTensor), x.type_as(other),
        ):  # fmt: skip
            assert given.dtype is sg.float64
            assert given.grad_fn.name() == "ToCopyBackward0"

    @pytest.mark.parametrize(
        ("name", "dtype"),
        [
            ("double", sg.float64), ("float", sg.float32), ("half", sg.float16), ("bfloat16", sg.bfloat16), ("long", sg.int64),
            ("int", sg.int32), ("short", sg.int16), ("char", sg.int8), ("byte", sg.uint8), ("bool", sg.bool),
            ("cfloat", sg.complex64), ("cdouble", sg.complex128),
        ],
    )  # fmt: skip
    def test_short_names(self, name, dtype):
        t = getattr(sg.tensor([0.0, 1.0, 2.0]), name)()
        assert t.dtype is dtype
        assert t.type() == f"torch.{dtype.word}Tensor"
        assert t.tolist() == ([False, True, True] if dtype is sg.bool else [0, 1, 2])

    def test_gradients_come_back_in_the_first_type(self, x):
        (x.double() * sg.tensor(3.0, dtype=sg.float64)).sum().backward()
        assert x.grad.dtype is sg.float32
        assert x.grad.tolist() == [[3, 3, 3], [3, 3, 3]]

    def test_integers_have_no_history(self, x):
        assert x.long().grad_fn is None
        assert x.half().long().grad_fn is None
        assert not x.bool().requires_grad

    def test_names_of_types(self, x):
        assert x.type() == "torch.FloatTensor"
        for wrong in ("foo", "torch.Foo", "cuda.FloatTensor", int):
            with pytest.raises(ValueError, match="invalid type"):
                x.type(wrong)


class Labelled(sg.Tensor):
    """A user's subclass."""


class TestSubclasses:
    def test_made_from_a_tensor(self, x):
        t = sg.Tensor._make_subclass(Labelled, x.detach(), True)
        t.label = "mine"
        assert (type(t), t.requires_grad) == (Labelled, True)
        (t * 2).sum().backward()
        assert t.grad.tolist()[0] == [2, 2, 2]
        for back in (copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
            assert (type(back), back.label) == (Labelled, "mine")

    def test_as_subclass_keeps_the_history(self, x):
        t = (x * 2).as_subclass(Labelled)
        t.sum().backward()
        assert x.grad.tolist()[0] == [2, 2, 2]

    def test_old_constructor(self):
        assert type(Labelled(2, 3)) is Labelled


class TestComplex:
    def test_parts_share_memory_and_differentiate(self):
        z = sg.tensor([1 + 2j, 3 - 4j], requires_grad=True)
        assert (z.real.tolist(), z.imag.tolist()) == ([1, 3], [2, -4])
        (z.real * 2 + z.imag * 3).sum().backward()
        assert z.grad.tolist() == [2 + 3j, 2 + 3j]
        w = z.detach()
        w.imag.zero_()
        assert z.tolist() == [1, 3]

    def test_of_real_numbers(self, x):
        assert x.real is x
        with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
            x.imag  # noqa: B018  (it raises)

    def test_from_parts(self):
        assert sg.complex(sg.ones(1), sg.ones(1)).tolist() == [1 + 1j]
        with pytest.raises(RuntimeError, match="Expected object of scalar type"):
            sg.complex(sg.ones(1), sg.ones(1).double())
        with pytest.raises(RuntimeError, match="Expected both inputs to be Half, Float or Double tensors"):
            sg.complex(sg.tensor([1]), sg.tensor([1]))


def test_printing_says_what_a_reader_could_not_guess(x):
    assert repr(sg.tensor([1.5])) == str(sg.tensor([1.5])) == "tensor([1.5000])"
    assert repr(sg.tensor([1], dtype=sg.int32)) == "tensor([1], dtype=torch.int32)"
    assert repr(sg.tensor(2.0, requires_grad=True)) == "tensor(2., requires_grad=True)"
    assert repr(sg.tensor(2.0, requires_grad=True) * 2) == "tensor(4., grad_fn=<MulBackward0>)"
    sg.set_printoptions(precision=2)
    try:
        assert repr(sg.tensor([1.5])) == "tensor([1.50])"
    finally:
        sg.set_printoptions(profile="default")


def test_versions_are_shared_by_views():
    t = sg.zeros(3)
    t[:2].add_(1)
    assert t._version == t[0]._version == 1
    assert t.data._version == 0


def test_version_is_that_of_the_installed_package(monkeypatch):
    monkeypatch.setattr(metadata, "version", {"symgrad": "1.2.3"}.__getitem__)
    assert sg.__version__ == "1.2.3"
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        sg.foo  # noqa: B018  (it raises)


def test_version_without_an_installed_package(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert sg.__version__ == "0+unknown"


def test_layouts_and_formats_have_pytorchs_names():
    assert repr(sg.strided) == "torch.strided"
    assert repr(sg.contiguous_format) == "torch.contiguous_format"
