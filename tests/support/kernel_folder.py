"""A folder for kernels that a test has to itself, and what is compiled meanwhile."""

import numpy as np

import symgrad as sg
from symgrad.compiler import cache
from symgrad.compiler.backends.xla import compilation_cache as hook

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def own_folder(tmp_path, monkeypatch):
    """An empty folder for kernels, and every kernel is worth keeping."""
    monkeypatch.delenv("SYMGRAD_CACHE")
    monkeypatch.delenv("SYMGRAD_CACHE_SIZE", raising=False)
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(hook, "_WORTH", 0.0)
    return tmp_path / "cache" / "kernels"


def count_compiles(monkeypatch):
    """A list that has an entry for every program that XLA really compiled."""
    from jax._src import compiler

    seen = []
    original = compiler.backend_compile_and_load
    monkeypatch.setattr(compiler, "backend_compile_and_load", lambda *args, **kwargs: seen.append(1) or original(*args, **kwargs))
    return seen


def run(scale=2.0, x=X):
    """What a function compiled anew gives."""
    return sg.compile(lambda x: (x * scale).tanh().sum())(sg.tensor(x)).item()


def entries(folder):
    return sorted(folder.glob("*.kernel"))
