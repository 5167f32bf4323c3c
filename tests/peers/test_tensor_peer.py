"""Creation, types and conversions against PyTorch: values bit for bit, types, and the kind of error."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import symgrad as sg

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"]


def outcome(module, code):
    """What an expression gives: type, shape and values of a tensor, text of anything else, or the class of the error."""
    module.manual_seed(11)
    names = {"torch": module, "np": np, "f": module.ones(3), "i": module.tensor([1, 2]), "x": module.ones(2, requires_grad=True)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(code, names)
    except Exception as error:
        return type(error).__name__
    if isinstance(result, module.Tensor):
        return repr(result.dtype), tuple(result.shape), result.requires_grad, result.tolist()
    return repr(result)


CREATION = """
tensor(3) | tensor(2.5) | tensor([True, 2]) | tensor([1, 2.5]) | tensor([1, 2j]) | tensor([]) | tensor([[], []]) | tensor(range(3))
tensor(np.float64(1.5)) | tensor([np.float64(1.5)]) | tensor([np.float32(1.5), 2]) | tensor([np.float16(1.5), 1.0])
tensor([torch.tensor(1.), torch.tensor(2)]) | tensor([torch.ones(1), torch.ones(1)]) | tensor([torch.ones(2), torch.ones(2)])
tensor([np.array([1, 2.]), [3, 4]]) | tensor([[1, 2, 3], [1, 2]]) | tensor([1, [2]]) | tensor([[2], 1]) | tensor('abc') | tensor(['a'])
tensor(None) | tensor([1, None]) | tensor({1: 2}) | tensor(2**63) | tensor([2**64]) | tensor(-2**63) | tensor(bytearray(b'ab'))
tensor(300, dtype=torch.uint8) | tensor(-1, dtype=torch.uint8) | tensor([1.7, -1.7], dtype=torch.int32) | tensor([1j], dtype=torch.float32)
tensor([1], requires_grad=True) | tensor([1.], requires_grad=True) | tensor(float('nan'), dtype=torch.int32)
from_numpy(np.ones(2)[::-1]) | from_numpy([1]) | from_numpy(np.ones(2, '>f8')) | from_numpy(np.arange(3)) | from_numpy(np.array(['a']))
as_tensor([1, 2]) | as_tensor(np.float64(2)) | asarray([1, 2.]) | asarray(f, dtype=torch.float64, copy=False) | asarray(3.5)
Tensor([1, 2]) | Tensor(3.5) | Tensor((2, 3)) | Tensor(np.array([1, 2]))
Tensor() | LongTensor([1.5, 2]) | LongTensor(f) | Tensor([[1], [2, 3]])
full([4, 3], 9) | full((2,), 1.5) | full((2,), True) | full((2,), 1j) | full(3, 2) | full((2,), torch.tensor(3)) | full_like(i, 2.5)
zeros(2, -1) | zeros(2.5) | zeros(True) | zeros() | zeros([2, 3.5]) | zeros((2,), dtype=int) | zeros((2,), dtype=float) | zeros(np.int64(3))
zeros(torch.tensor(3), 2) | zeros((2,), dtype=torch.int64, requires_grad=True) | zeros(2, out=torch.ones(3)) | zeros(2, foo=1)
zeros(2, out=torch.ones(2), dtype=torch.int64) | ones(2, dtype=torch.bool) | eye(2, 3) | eye(-1) | eye(2, dtype=torch.bool)
arange(5) | arange(5.) | arange(1, 3, 0.4) | arange(5, 1)
arange(5, 1, -1) | arange(0, 5, 0) | arange(end=4) | arange(0.5, 3, dtype=torch.int32)
arange(-7, 9, 3) | arange(0, 1, 0.1) | arange(0, 1, 0.1, dtype=torch.float64) | arange(1, 0, -0.07) | arange(3, dtype=torch.float16)
linspace(0, 1, 7) | linspace(-3, 11, 50) | linspace(0, 10, 5, dtype=torch.int64)
linspace(0, 1, 1) | linspace(0, 1, 0) | linspace(0, 1, -1)
linspace(0.1, 0.7, 33, dtype=torch.float64) | linspace(0, 1j, 3) | logspace(0, 2, 3) | logspace(0, 2, 3, base=2) | linspace(5, -5, 11)
scalar_tensor(3) | tril_indices(3, 4, 1) | triu_indices(3, 4, -1) | frombuffer(bytearray(8), dtype=torch.float32)
rand(3, 4) | rand(2, dtype=torch.float64) | rand(2, dtype=torch.int64) | randn(5) | randn(3, 7) | randn(2, dtype=torch.complex64)
randint(10, (5,)) | randint(3, 10, (2, 3)) | randint(10, 3, (2,)) | randint(0, 9, size=(3,), dtype=torch.float32) | randint(10, 2)
randint_like(f, 5) | randint_like(f, 2, 5) | rand_like(f) | randn_like(f, dtype=torch.float64) | rand_like(i) | randperm(9) | randperm(-1)
normal(0., 1., (20,)) | normal(2., 3., (5,)) | normal(torch.zeros(20), 2.) | normal(1., torch.ones(20)) | normal(0., 1.)
normal(torch.zeros(3), torch.ones(2)) | normal(torch.zeros(2, 1), torch.arange(1., 4.)) | normal(torch.zeros(3), -1.) | bernoulli(f * 0.5)
bernoulli(f, 0.5) | bernoulli(i) | multinomial(f, 2) | multinomial(torch.arange(1., 9), 20, True) | multinomial(i, 2)
Tensor(3).uniform_(2, 5) | Tensor(20).normal_(1, 2) | Tensor(5).random_(7) | Tensor(5).random_(2, 7) | LongTensor(3).random_()
Tensor(5).exponential_(2.) | Tensor(5).bernoulli_(0.3) | Tensor(3).bernoulli_(torch.tensor([0., 1, 1])) | Tensor(3).uniform_(2, 1)
Tensor(20).geometric_(0.3) | LongTensor(20).geometric_(0.3)
Tensor(20).log_normal_(0, 1) | Tensor(5).cauchy_(1, 2) | Tensor(5).geometric_(1)
Tensor(5).cauchy_(0, -1) | Tensor(5).log_normal_(0, -1) | LongTensor(5).cauchy_() | LongTensor(5).log_normal_()
LongTensor(3).uniform_() | Tensor(3).normal_(0, -1) | manual_seed(-1).initial_seed() | get_rng_state() | Generator().initial_seed()
manual_seed('a') | set_rng_state(f) | rand(2, generator=torch.Generator().manual_seed(3))
"""


@pytest.mark.parametrize("call", [call.strip() for line in CREATION.strip().splitlines() for call in line.split("|")])
def test_creation(call):
    assert outcome(sg, f"torch.{call}") == outcome(torch, f"torch.{call}")


METHODS = """
x.requires_grad_() | (x*2).requires_grad_() | (x*2).requires_grad_(False) | i.requires_grad_() | (x*2).detach() | (x*2).detach_() | x.data
x.numpy() | f.numpy() | x.numpy(force=True) | np.asarray(x) | f.item() | f[:1].item() | f[:0].item() | bool(f) | bool(f[:0]) | bool(f[:1])
int(f) | int(f[0]) | float(f[:1]) | float(torch.tensor(1j)) | complex(torch.tensor(1j)) | [1, 2, 3][i[0]] | [1, 2, 3][f[0]] | [1, 2, 3][i]
len(f) | len(f[0]) | list(f[0]) | list(f) | 1.0 in f | 'a' in f | i[0] in i | format(f[0], '.2f') | format(f, '.2f') | f'{f[0]}' | f'{f}'
f.tolist() | f[0].tolist() | f.size() | f.size(-1) | f.size(3) | f.dim() | f.nelement() | f.element_size() | f.nbytes | f.layout | f.device
f.stride() | f.storage_offset() | f[1:].storage_offset() | f.is_contiguous() | f.is_complex() | f.get_device() | f.output_nr | f._version
i.imag | f.real is f | torch.tensor([1+2j]).imag | torch.tensor([1+2j], requires_grad=True).real
f.to(torch.float32) is f | f.to('cpu') is f | f.to(torch.float32, copy=True) is f | f.to(i) | f.to('foo') | f.to() is f | f.to(3)
f.to('cpu', torch.double) | f.to(device='cpu', dtype=torch.half) | x.to(torch.double) | x.double() | x.long() | x.bool() | f.to(None) is f
f.type() | f.type(torch.LongTensor) | f.type('torch.IntTensor') | f.type('foo') | f.type(int) | f.type_as(i) | f.bfloat16() | f.byte()
torch.tensor([1.9, -1.9, 300., float('nan')]).int() | torch.tensor([300., 255.]).byte() | torch.tensor([-1, 256]).to(torch.uint8)
f.new_tensor([1, 2]) | i.new_tensor([1.5]) | f.new_zeros(2, 3) | f.new_full((2,), 3) | f.new_full((2,), 3j) | i.new_full((2,), 3.5)
f.new_ones((2,), dtype=torch.int32) | i.new([1.5]) | x.uniform_() | isinstance(f, torch.FloatTensor) | isinstance(f, torch.LongTensor)
torch.device('cuda:1') | torch.device('cuda', 1) | torch.device('foo')
torch.device('cuda:a') | torch.device('') | torch.device('cpu', '1')
torch.device('cpu:0') == torch.device('cpu') | str(torch.device('cuda:1')) | torch.device('cuda').index | torch.device(1)
torch.is_tensor(3) | torch.numel(f) | torch.is_nonzero(f) | torch.is_floating_point(i) | torch.typename(f) | torch.FloatTensor
torch.Size([2, 3]) + (1,) | torch.Size([2, 3])[:1] | torch.Size([2, 3]) * 2 | torch.Size([2, 3]).numel() | hash(f) == hash(f)
"""


@pytest.mark.parametrize("call", [call.strip() for line in METHODS.strip().splitlines() for call in line.split(" | ")])
def test_attributes_and_conversions(call):
    assert outcome(sg, call) == outcome(torch, call)


numbers = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-9, 9),
    st.floats(allow_nan=False, width=32),
    st.complex_numbers(allow_nan=False, max_magnitude=100, width=64),
    st.sampled_from([np.float64(1.5), np.float32(2.5), np.int8(3), None, "a"]),
)
nested = st.recursive(numbers, lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8)  # PyTorch reads [[], 1] as empty


def read(module, data):
    try:
        t = module.tensor(data)
    except (TypeError, ValueError, RuntimeError):
        return "refused"  # which of several faults is named first does not matter
    return repr(t.dtype), tuple(t.shape), t.tolist()


@settings(max_examples=400, deadline=None)
@given(nested)
def test_any_nested_list(data):
    assert read(sg, data) == read(torch, data)


@pytest.mark.parametrize("x", DTYPES)
def test_promotion(x):
    for y in DTYPES:
        theirs = torch.promote_types(getattr(torch, x), getattr(torch, y))
        if theirs is not torch.complex32:  # which we do not have
            assert repr(sg.promote_types(getattr(sg, x), getattr(sg, y))) == repr(theirs)
        assert sg.can_cast(getattr(sg, x), getattr(sg, y)) == torch.can_cast(getattr(torch, x), getattr(torch, y))


def operands(module):
    for name in DTYPES:
        yield module.ones(2, dtype=getattr(module, name))
        yield module.ones((), dtype=getattr(module, name))
    yield from (True, 2, 2.5, 2j)


def test_result_type():
    for ours, theirs in zip(itertools.product(operands(sg), repeat=2), itertools.product(operands(torch), repeat=2), strict=True):
        expected = torch.result_type(*theirs)
        if expected is not torch.complex32:
            assert repr(sg.result_type(*ours)) == repr(expected), ours


@pytest.mark.parametrize("name", DTYPES)
def test_limits(name):
    ours, theirs = getattr(sg, name), getattr(torch, name)
    for info in ("finfo", "iinfo"):
        try:
            expected = getattr(torch, info)(theirs)
        except TypeError:
            with pytest.raises(TypeError):
                getattr(sg, info)(ours)
            continue
        found = getattr(sg, info)(ours)
        assert repr(found) == repr(expected)
        assert (found.max, found.min, found.bits, found.dtype) == (expected.max, expected.min, expected.bits, expected.dtype)


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source):
    values = [0, 1, 2, 100] if source not in ("bool",) else [0, 1, 1, 0]
    for target in DTYPES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = sg.tensor(values, dtype=getattr(sg, source)).to(getattr(sg, target))
            theirs = torch.tensor(values, dtype=getattr(torch, source)).to(getattr(torch, target))
        assert ours.tolist() == theirs.tolist()
        assert ours.type() == theirs.type()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
def test_ranges_bit_for_bit(dtype):
    for count in (2, 3, 11) if dtype == "int64" else (2, 3, 10, 101):  # PyTorch truncates every fourth integer twice
        ours = sg.linspace(-3, 17, count, dtype=getattr(sg, dtype))
        theirs = torch.linspace(-3, 17, count, dtype=getattr(torch, dtype))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        ours, theirs = sg.arange(-3, 17, count, dtype=getattr(sg, dtype)), torch.arange(-3, 17, count, dtype=getattr(torch, dtype))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


class TestDLPack:
    @pytest.mark.parametrize("name", [name for name in DTYPES if name != "bfloat16"])
    def test_both_ways_share_memory(self, name):
        ours = sg.ones(2, 3, dtype=getattr(sg, name))
        theirs = torch.from_dlpack(ours)
        assert (theirs.data_ptr(), repr(theirs.dtype)) == (ours.data_ptr(), repr(ours.dtype))
        back = sg.from_dlpack(theirs)
        assert back.data_ptr() == ours.data_ptr()
        assert back.dtype is ours.dtype

    def test_their_memory_can_be_written(self):
        theirs = torch.zeros(3)
        sg.from_dlpack(theirs).add_(1)
        assert theirs.tolist() == [1, 1, 1]

    def test_views_arrive_whole(self):
        base = sg.arange(12.0).reshape(3, 4)
        for view in (base.t(), base[:, ::2], base[1:], base.flip(0), sg.from_dlpack(np.arange(4.0)[::-1])):
            assert torch.from_dlpack(view).tolist() == view.tolist()
        theirs = torch.arange(12.0).reshape(3, 4).t()[1:]
        assert sg.from_dlpack(theirs).tolist() == theirs.tolist()

    def test_gradients_stay_at_home(self):
        with pytest.raises(BufferError):
            torch.from_dlpack(sg.ones(1, requires_grad=True))
        with pytest.raises(BufferError):
            sg.from_dlpack(torch.ones(1, requires_grad=True))
