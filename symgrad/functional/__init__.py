"""The public functions of tensors, family by family; importing this gives Tensor its operators and methods."""

from symgrad.dispatch import tensors as _tensors
from symgrad.functional import subscript, writing  # noqa: F401  (methods only)
from symgrad.functional.arranging import *
from symgrad.functional.assumptions import *
from symgrad.functional.choosing import *
from symgrad.functional.combining import *
from symgrad.functional.comparison import *
from symgrad.functional.complexes import *
from symgrad.functional.contraction import *
from symgrad.functional.covariance import *
from symgrad.functional.einsum import *
from symgrad.functional.elementwise import *
from symgrad.functional.indexing import *
from symgrad.functional.joining import *
from symgrad.functional.matrices import *
from symgrad.functional.names import METHODS as _METHODS
from symgrad.functional.neural import *
from symgrad.functional.reduction import *
from symgrad.functional.shaping import *
from symgrad.functional.sorting import *
from symgrad.functional.statistics import *
from symgrad.ops.infix import install as _install, install_inplace as _install_inplace
from symgrad.tensor import Tensor

_install(Tensor, _tensors)
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _function)
_install_inplace(Tensor, _METHODS)
