"""symgrad: one Python function, three lives: eager tensors, closed-form derivatives, compiled kernels."""

from math import e as e, inf as inf, nan as nan, pi as pi
from typing import TYPE_CHECKING

from symgrad import autograd as autograd, linalg as linalg, special as special
from symgrad.autograd import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from symgrad.conversion import *
from symgrad.creation import *
from symgrad.devices import (
    device as device,
    get_default_device as get_default_device,
    set_default_device as set_default_device,
)
from symgrad.dtypes import (
    bfloat16 as bfloat16,
    bool as bool,
    can_cast as can_cast,
    cdouble as cdouble,
    cfloat as cfloat,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    dtype as dtype,
    finfo as finfo,
    float as float,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_dtype as get_default_dtype,
    half as half,
    iinfo as iinfo,
    int as int,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    long as long,
    promote_types as promote_types,
    result_type as result_type,
    set_default_dtype as set_default_dtype,
    short as short,
    uint8 as uint8,
)
from symgrad.from_data import *
from symgrad.from_data import from_dlpack as from_dlpack
from symgrad.functional import *
from symgrad.layouts import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    strided as strided,
)
from symgrad.legacy import *
from symgrad.printing import get_printoptions as get_printoptions, set_printoptions as set_printoptions
from symgrad.random import *
from symgrad.settings import *
from symgrad.tensor import Size as Size, Tensor as Tensor

from symgrad import accelerator as accelerator, backends as backends, cuda as cuda, interop as interop  # isort: skip
from symgrad import random as random  # isort: skip

newaxis = None

globals().pop("elementwise", None)  # a module of symgrad.functional, in front of the function of this name, which is loaded later

if TYPE_CHECKING:
    from symgrad import (
        debug as debug,
        func as func,
        io as io,
        nn as nn,
        optim as optim,
        optimize as optimize,
        testing as testing,
        training as training,
        utils as utils,
    )
    from symgrad.compiler.api import (
        compile as compile,
        derive as derive,
        elementwise as elementwise,
        from_jax as from_jax,
        from_sympy as from_sympy,
        load_compiled as load_compiled,
        spec as spec,
    )
    from symgrad.control import cond as cond, fori_loop as fori_loop, scan as scan, while_loop as while_loop
    from symgrad.io import load as load, save as save
    from symgrad.text import parse as parse
    from symgrad.training import Model as Model


_LATER = {  # what is loaded when it is first asked for: a module, or a name in one
    "Model": "symgrad.training:Model",
    "compile": "symgrad.compiler.api:compile",
    "compiler": "symgrad.compiler",
    "debug": "symgrad.debug",
    "derive": "symgrad.compiler.api:derive",
    "elementwise": "symgrad.compiler.api:elementwise",
    "from_jax": "symgrad.compiler.api:from_jax",
    "from_sympy": "symgrad.compiler.api:from_sympy",
    "fft": "symgrad.fft",
    "func": "symgrad.func",
    "io": "symgrad.io",
    "load": "symgrad.io:load",
    "load_compiled": "symgrad.compiler.api:load_compiled",
    "nn": "symgrad.nn",
    "optim": "symgrad.optim",
    "optimize": "symgrad.optimize",
    "parse": "symgrad.text:parse",
    "save": "symgrad.io:save",
    "spec": "symgrad.compiler.api:spec",
    "testing": "symgrad.testing",
    "training": "symgrad.training",
    "utils": "symgrad.utils",
    "vmap": "symgrad.func:vmap",
}
_LATER |= {name: f"symgrad.control:{name}" for name in ("cond", "fori_loop", "scan", "while_loop")}
_LATER |= {
    name: f"symgrad.nn.functional:{name}"
    for name in (  # noqa: SIM905  (names read better without quotes)
        "adaptive_avg_pool1d avg_pool1d bilinear celu celu_ conv1d conv2d conv_transpose1d conv_transpose2d cosine_similarity max_pool1d"
        " max_pool1d_with_indices max_pool2d pairwise_distance relu_ rms_norm rrelu selu selu_ threshold threshold_"
    ).split()
}
_LATER |= {
    name: f"symgrad.nn.functional.toplevel:{name}"
    for name in (  # noqa: SIM905  (names read better without quotes)
        "alpha_dropout batch_norm binary_cross_entropy_with_logits cosine_embedding_loss dropout embedding group_norm hinge_embedding_loss"
        " instance_norm kl_div layer_norm margin_ranking_loss poisson_nll_loss triplet_margin_loss"
    ).split()
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("symgrad")
        except metadata.PackageNotFoundError:  # run from its folder
            return "0+unknown"
    if name not in _LATER:
        import sys

        # with name and obj Python suggests what may have been meant
        raise AttributeError(f"module 'symgrad' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    from importlib import import_module

    module, _, attribute = _LATER[name].partition(":")
    value = getattr(import_module(module), attribute) if attribute else import_module(module)
    globals()[name] = value
    return value


def _formula(self: Tensor, wrt: object = None, *, order: object = 1, notation: str = "auto") -> object:
    """The closed form of this result, out of its recorded history, and of its derivatives in the leaves `wrt`: tensors or their names.
    It is there after `backward()`, too."""
    from symgrad.compiler.api import formula

    return formula(self, wrt, order=order, notation=notation)  # type: ignore[arg-type]


Tensor.formula = _formula  # type: ignore[method-assign]


_MODULES = {
    "accelerator", "autograd", "backends", "compiler", "cuda", "debug", "errors", "fft", "func", "interop", "io", "linalg", "nn", "optim",
    "optimize", "random", "special", "testing", "training", "utils",
}  # fmt: skip


def __dir__() -> list[str]:
    """What is there for users: modules that hold the parts of symgrad itself are left out."""
    from types import ModuleType

    inner = {name for name, value in globals().items() if isinstance(value, ModuleType)} - _MODULES
    return sorted({*globals(), *_LATER, *_MODULES, "__version__"} - inner - {"TYPE_CHECKING", "_LATER", "_MODULES"})
