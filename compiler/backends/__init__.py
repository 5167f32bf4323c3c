"""Back ends: graphs as source and kernels. Those that come with symgrad are registered here; their modules are imported on first use."""

from symgrad.compiler.backends.base import Backend, register

register(Backend("numpy", "symgrad.compiler.backends.numpy.kernel:make_kernel", "NumPy", candidate=True, pipeline="numpy"))
register(Backend(
    "xla", "symgrad.compiler.backends.xla.kernel:make_kernel", "XLA", donates=True, pools=True, candidate=True, pipeline="xla"
))  # fmt: skip
register(Backend("auto", "symgrad.compiler.backends.auto:make_kernel", donates=True))
