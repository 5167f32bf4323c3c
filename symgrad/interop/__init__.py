"""Other libraries' calls, answered: importing this teaches NumPy's functions about tensors."""

from symgrad.interop import numpy_functions as numpy_functions, numpy_ufuncs as numpy_ufuncs
