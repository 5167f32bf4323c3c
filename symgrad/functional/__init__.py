"""The public functions of tensors, family by family; importing this gives Tensor its operators and methods."""

from symgrad.dispatch import tensors as _tensors
from symgrad.functional import subscript, writing  # noqa: F401  (methods only)
from symgrad.functional.arranging import *  # noqa: F403
from symgrad.functional.choosing import *  # noqa: F403
from symgrad.functional.comparison import *  # noqa: F403
from symgrad.functional.complexes import *  # noqa: F403
from symgrad.functional.contraction import *  # noqa: F403
from symgrad.functional.einsum import *  # noqa: F403
from symgrad.functional.elementwise import *  # noqa: F403
from symgrad.functional.indexing import *  # noqa: F403
from symgrad.functional.joining import *  # noqa: F403
from symgrad.functional.matrices import *  # noqa: F403
from symgrad.functional.names import METHODS as _METHODS
from symgrad.functional.neural import *  # noqa: F403
from symgrad.functional.reduction import *  # noqa: F403
from symgrad.functional.shaping import *  # noqa: F403
from symgrad.functional.sorting import *  # noqa: F403
from symgrad.functional.statistics import *  # noqa: F403
from symgrad.ops.infix import install as _install, install_inplace as _install_inplace
from symgrad.tensor import Tensor

_install(Tensor, _tensors)
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _function)
_install_inplace(Tensor, _METHODS)
