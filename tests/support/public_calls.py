"""A call of every public function and method that takes tensors: found among recipes, or written down."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import symgrad as sg

F = sg.nn.functional

V = [0.2, 0.5, 0.7]
M = [[0.9, 0.1, 0.2], [0.1, 0.8, 0.3], [0.2, 0.3, 0.7]]
I3 = [0, 2, 1]
I2 = [0, 2]
B = [True, False, True]
T = sg.tensor
Recipe = tuple[Any, ...]


def _recipes() -> list[Recipe]:
    """Arguments by position, tensors as nested lists in T(...): the first that a function takes is its call."""
    v, m, i, b, s, n = T(V), T(M), T(I3), T(B), T(0.5), T(2)
    batch, image = T([M, M]), T([[M, M]])
    return [
        (v,), (v, v), (v, v, v), (m,), (m, m), (m, v), (v, 0), (m, 0), (m, 1), (m, 0, 1), (m, m, m), (batch,), (batch, batch),
        (v, m, v), (batch, batch, batch), (v, (3,)), (m, (9,)), (m, (1, 0)), (v, 0.3), (m, 0, i), (m, 0, T([[0, 2, 1]])), (m, 0, i, m),
        (m, 0, T([[0, 2, 1]]), m), (m, 0, i, 0.5), (v, b), (v, b, 0.5), (v, b, v), (b, v, v), (v, i), (i,), (i, i), (b,), (b, b), (2, v),
        (0, v), (v, 2), (i, 2), (v, 0, 1), (v, 0, 0, 2), (v, 0, 2, 1), (m, m, 0), (image, 2), (image, (2, 2)), (batch, 2), (image, m[:2]),
        (i, m), (image,), (v[:0],), (v, 3, 0.5, -0.5), (v, -1.0, 1.0), (v, v, v, v), (image, T([[[[1.0]], [[1.0]]]])), (s, s), (n,),
        (image, v[:2], v[:2]), (batch, v, v), (m, m, T([1.0, -1.0, 1.0])), (m, m, m, T([1.0])), (m, (3,)), (image, 2, 2), ([v, v],),
        (m, T([0, 2, 1]), m), (v, v, 0.5), (m, 3), (image, 2.0, 2), (batch, 2.0, 2), (T([M, M, M]), 2),
    ]  # fmt: skip


RECIPES = _recipes()


def scalar_recipes() -> list[Recipe]:
    """Arguments in which every tensor is a single number."""
    s, n, b = T(0.5), T(2), T(True)
    return [
        (s,), (s, s), (s, s, s), (s, 0), (s, 0.3), (s, (1,)), (b, s, s), (n,), (n, n), (b,), (b, b), (2, s), (s, 2),
        (s, -1.0, 1.0), (s, s, 0.5),
    ]  # fmt: skip


WRITTEN: dict[str, tuple[Any, ...]] = {
    "addbmm": (T(M), T([M, M]), T([M, M])), "addbmm_": (T(M), T([M, M]), T([M, M])),
    "addr_": (T(M), T(V), T(V)),
    "as_subclass": (T(V), sg.Tensor), "assume": (T(V), "positive"),
    "sg.alpha_dropout": (T(M), 0.3, True), "sg.dropout": (T(M), 0.3, True),
    "atleast_1d": (T(0.5), T(V)), "atleast_2d": (T(0.5), T(V)), "atleast_3d": (T(0.5), T(V)), "meshgrid": (T(V), T(V)),
    "batch_norm": (T(M), T(V), T(V), T(V), T(V), False, 0.1, 1e-5, False),
    "F.batch_norm": (T(M), T(V), T(V), T(V), T(V)),
    "bilinear": (T(M), T(M), T([M, M])), "chain_matmul": (T(M), T(M)), "multi_dot": ([T(M), T(M)],),
    "conv3d": (T([[[M, M]]]), T([[[[[0.5]]]]])),
    "conv_transpose1d": (T([M]), T([[[0.5]], [[0.25]], [[1.0]]])),
    "conv_transpose2d": (T([[M]]), T([[[[0.5]]]])),
    "conv_transpose3d": (T([[[M]]]), T([[[[[0.5]]]]])),
    "cosine_embedding_loss": (T(M), T(M), T([1.0, -1.0, 1.0])),
    "ctc_loss": (T([[V, V], [V, V]]).log_softmax(2), T([[1], [2]]), T([2, 2]), T([1, 1])),
    "einsum": ("ij,jk->ik", T(M), T(M)),
    "embedding_bag": (T([[0, 2]]), T(M)), "sg.embedding": (T(M), T(I3)),
    "empty_strided": ((2,), (1,)),
    "float_power_": (T(V).double(), T(V)),
    "flip": (T(M), (1,)), "permute": (T(M), (1, 0)), "tile": (T(V), (2,)), "resize_": (T(V), (2,)),
    "fold": (T([[[1.0, 2.0, 3.0, 4.0]] * 4]), (3, 3), (2, 2)),
    "F.lp_pool1d": (T(M), 2.0, 2),
    "hinge_embedding_loss": (T(V), T([1.0, -1.0, 1.0])),
    "hsplit": (T(M), 3), "vsplit": (T(M), 3), "tensor_split": (T(M), 2),
    "imag": (T([1 + 2j]),), "view_as_real": (T([1 + 2j]),), "view_as_complex": (T([[0.2, 0.5]]),),
    "index_select": (T(M), 0, T(I2)), "take": (T(M), T(I3)), "take_along_dim": (T(M), T([I3]), 0),
    "index_put": (T(V), (T(I2),), T([1.0, 2.0])), "index_put_": (T(V), (T(I2),), T([1.0, 2.0])),
    "instance_norm": (T([[M]]), T([1.0]), T([1.0]), None, None, True, 0.1, 1e-5, False),
    "F.instance_norm": (T([[M]]),),
    "kthvalue": (T(V), 2),
    "new_full": (T(V), (2,), T(0.5)), "new_tensor": (T(V), T(0.5)), "normal": (T(V), T(V)),
    "log_softmax": (T(V), 0), "softmax": (T(V), 0), "F.gumbel_softmax": (T(V),),
    "margin_ranking_loss": (T(V), T(V), T([1.0, -1.0, 1.0])),
    "max_unpool1d": (T([[1.0, 2.0]]), T([[1, 3]]), 2),
    "max_unpool2d": (T([[[1.0, 2.0], [3.0, 4.0]]]), T([[[5, 7], [13, 15]]]), 2),
    "max_unpool3d": (T([[[[1.0]]]]), T([[[[7]]]]), 2),
    "multi_head_attention_forward": (
        T([[[0.1, 0.2]]]), T([[[0.1, 0.2]]]), T([[[0.1, 0.2]]]), 2, 1, T([[0.5, 0.1]] * 6), T([0.1] * 6), None, None, False, 0.0,
        T([[0.5, 0.1]] * 2), T([0.1] * 2),
    ),
    "multi_margin_loss": (T(M), T(I3)), "nll_loss": (T(M), T(I3)),
    "pixel_shuffle": (T([[M, M, M, M]]), 2), "pixel_unshuffle": (T([[[[1.0, 2.0], [3.0, 4.0]]]]), 2),
    "poisson_nll_loss": (T(V), T(V), True, False, 1e-8, 1), "F.poisson_nll_loss": (T(V), T(V)),
    "polygamma": (1, T(V)), "Tensor.polygamma": (T(V), 1), "polygamma_": (T(V), 1),
    "scatter": (T(M), 0, T([I3]), T(M)), "scatter_": (T(M), 0, T([I3]), T(M)), "select_scatter": (T(M), T(V), 0, 1),
    "solve_triangular": (T(M),), "sg.linalg.solve_triangular": (T(M), T(M)),
    "swapaxes": (T(M), 0, 1), "swapdims": (T(M), 0, 1), "transpose": (T(M), 0, 1),
    "unflatten": (T(V), 0, (3, 1)),
}  # fmt: skip
"""Calls that no recipe is good for, by name."""
OPTIONS: dict[str, dict[str, Any]] = {"sg.linalg.solve_triangular": {"upper": True}}
NO_TENSORS = {
    "creation": "arange bartlett_window empty empty_strided eye full linspace logspace ones range tril_indices triu_indices zeros",
    "random numbers": "get_rng_state initial_seed manual_seed rand randint randn randperm seed set_rng_state",
    "settings": """can_cast get_default_device get_default_dtype get_printoptions is_grad_enabled is_inference_mode_enabled promote_types
        set_default_device set_default_dtype set_default_tensor_type set_printoptions set_deterministic_debug_mode
        use_deterministic_algorithms are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled
        get_deterministic_debug_mode set_float32_matmul_precision get_float32_matmul_precision set_num_threads get_num_threads""",
    "shapes": "broadcast_shapes",
    "takes anything, by its meaning": """tensor as_tensor asarray is_tensor typename scalar_tensor from_dlpack from_numpy frombuffer
        result_type""",
    "files and functions": """load load_compiled save parse from_sympy compile derive spec elementwise from_jax cond fori_loop scan
        while_loop vmap public""",
    "memory that has no values": "empty_like data_ptr",
    "frequencies": "fftfreq rfftfreq",
    "of the tensor itself": "backward cuda formula numpy register_hook register_post_accumulate_grad_hook retain_grad",
}
"""Functions that are not walked, by the reason."""


def is_function(f: Any) -> bool:
    return callable(f) and not inspect.isclass(f) and not inspect.ismodule(f)


def is_walked(name: str) -> bool:
    return name.rpartition(".")[2] not in {word for words in NO_TENSORS.values() for word in words.split()}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public functions of the namespaces of tensors, by name."""
    spaces = {"sg": sg, "sg.linalg": sg.linalg, "sg.special": sg.special, "sg.fft": sg.fft, "F": F}
    for prefix, space in spaces.items():
        for name in sorted(set(dir(space))):
            f = getattr(space, name)
            if not name.startswith("_") and is_function(f) and str(getattr(f, "__module__", "")).startswith("symgrad") and is_walked(name):
                yield f"{prefix}.{name}", f


def public_methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sorted(dir(sg.Tensor)):
        f = getattr(sg.Tensor, name)
        if not name.startswith("_") and is_function(f) and is_walked(name):
            yield f"Tensor.{name}", f


def fresh(args: Any) -> Any:
    """The same arguments in memory of their own."""
    if isinstance(args, (tuple, list)):
        return type(args)(fresh(x) for x in args)
    return args.clone() if isinstance(args, sg.Tensor) else args


def called(name: str, f: Callable[..., Any], args: Any) -> Any:
    """A call with the same random numbers as every other."""
    sg.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated names, and of sizes that are broadcast
        return f(*args, **OPTIONS.get(name, {}))


def call_of(name: str, f: Callable[..., Any], recipes: list[Recipe]) -> tuple[Any, Any] | None:
    """The arguments of a call that works with tensors, and its result; None if there is none among the recipes."""
    written = WRITTEN.get(name, WRITTEN.get(name.rpartition(".")[2]))
    for recipe in ([] if written is None else [written]) + recipes:
        try:
            return fresh(recipe), called(name, f, fresh(recipe))
        except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, NotImplementedError, KeyError, AssertionError):
            continue
    return None
