"""symgrad: one Python function, three lives: eager tensors, closed-form derivatives, compiled kernels."""

from symgrad import autograd as autograd, special as special
from symgrad.autograd import enable_grad as enable_grad
from symgrad.autograd import inference_mode as inference_mode
from symgrad.autograd import is_grad_enabled as is_grad_enabled
from symgrad.autograd import is_inference_mode_enabled as is_inference_mode_enabled
from symgrad.autograd import no_grad as no_grad
from symgrad.autograd import set_grad_enabled as set_grad_enabled
from symgrad.creation import *  # noqa: F403
from symgrad.dtypes import bfloat16 as bfloat16
from symgrad.dtypes import bool as bool
from symgrad.dtypes import cdouble as cdouble
from symgrad.dtypes import cfloat as cfloat
from symgrad.dtypes import complex64 as complex64
from symgrad.dtypes import complex128 as complex128
from symgrad.dtypes import double as double
from symgrad.dtypes import dtype as dtype
from symgrad.dtypes import float as float
from symgrad.dtypes import float16 as float16
from symgrad.dtypes import float32 as float32
from symgrad.dtypes import float64 as float64
from symgrad.dtypes import get_default_dtype as get_default_dtype
from symgrad.dtypes import half as half
from symgrad.dtypes import int as int
from symgrad.dtypes import int8 as int8
from symgrad.dtypes import int16 as int16
from symgrad.dtypes import int32 as int32
from symgrad.dtypes import int64 as int64
from symgrad.dtypes import long as long
from symgrad.dtypes import set_default_dtype as set_default_dtype
from symgrad.dtypes import short as short
from symgrad.dtypes import uint8 as uint8
from symgrad.functional import *  # noqa: F403
from symgrad.tensor import Size as Size
from symgrad.tensor import Tensor as Tensor
