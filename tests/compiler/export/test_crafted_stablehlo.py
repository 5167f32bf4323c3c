"""Files with right checksums and programs made to crash XLA: each is refused with a clear error, or runs. None takes the process along."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from crafted_modules import crafted, mutations

import symgrad as sg
import symgrad.nn.functional as F
from symgrad.compiler.export import container

RUNNER = Path(__file__).parents[2] / "support" / "run_modules.py"
DTYPES = {"i1": "bool", "i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64", "complex<f32>": "complex64"}


def outcomes(lines):
    """What comes of each module, in one process as long as it lives."""
    lines, found = list(lines), {}
    while len(found) < len(lines):
        rest = "".join(json.dumps(line) + "\n" for line in lines[len(found) :])
        done = subprocess.run([sys.executable, "-P", RUNNER], input=rest, capture_output=True, text=True, timeout=500)
        said = done.stdout.splitlines()
        found |= dict(zip(said[::2], said[1::2], strict=False))
        if len(said) % 2:
            found[said[-1]] = f"crashed {done.returncode}"
        assert said, done.stderr[-1000:]
    return found


def kinds(found):
    return Counter(re.match(r"\w+", outcome)[0] for outcome in found.values())


def bad(found):
    return {name: outcome for name, outcome in found.items() if not outcome.startswith(("ran", "refused", "out of memory"))}


def test_crafted_files_are_refused_or_run(tmp_path):
    sg.compile(lambda x: x * 2).export(tmp_path / "honest.sgx", sg.ones(2))
    header, parts = container.read(tmp_path / "honest.sgx")
    modules = crafted()
    lines = []
    for i, (name, text) in enumerate(modules.items()):
        container.write(tmp_path / f"{i}.sgx", header, {**parts, "forward.mlir": text.encode()})
        lines.append((name, str(tmp_path / f"{i}.sgx")))
    found = outcomes(lines)
    assert bad(found) == {}
    assert kinds(found)["refused"] > 130
    assert {name for name, outcome in found.items() if outcome == "ran"} == {
        "a branch", "a composite", "a composite that XLA knows", "4 doublings", "8 calls inside each other", "a tebibyte",
    }  # fmt: skip
    assert "functions that call themselves: f -> g -> f" in found["two functions call each other"]
    assert "'f' must have a body of one block" in found["a callee without a body"]
    assert "operations when calls are expanded" in found["30 doublings"]
    assert "35 calls inside each other, and 32 is the limit" in found["33 calls inside each other"]
    assert "30001 operations that wait for each other" in found["30 thousand dependent operations"]
    assert "calls lapack_spotrf_ffi with other types or options" in found["potrf of 1, version 1"]
    assert "XLA cannot compile" in found["a composite with too few results"]


HONEST = {
    "net": (lambda x, w: (x @ w).tanh().sum(), (2, 3), (3, 2)),
    "solve": (lambda a: sg.linalg.inv(a + 5 * sg.eye(3)).sum(), (3, 3)),
    "eigh": (lambda a: sg.linalg.eigh(a @ a.mT)[0].sum() + sg.linalg.cholesky(a @ a.mT + 3 * sg.eye(3)).sum(), (2, 3, 3)),
    "eig": (lambda a: sg.linalg.eig(a)[0].abs().sum(), (2, 3, 3)),
    "svd": (lambda a: sg.linalg.svd(a)[1].sum() + sg.linalg.qr(a)[1].sum(), (4, 3)),
    "sort": (lambda x: x.sort()[0][:3].sum() + x.topk(2)[0].sum() + x.cumsum(0).sum(), (6,)),
    "convolution": (lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1), 2).sum(), (1, 2, 6, 6), (3, 2, 3, 3)),
    "erf": (lambda x: sg.erf(x).sum(), (4,)),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The text of honest programs: values, VJPs and gradients."""
    path, found = tmp_path_factory.mktemp("files") / "f.sgx", []
    for f, *shapes in HONEST.values():
        sg.compile(f).export(path, *(sg.spec(shape) for shape in shapes))
        found += [part.decode() for name, part in container.read(path)[1].items() if name.endswith(".mlir")]
    return found


def types(text):
    """The types of a module's function, as it says them itself; nothing if it says none that could be passed."""
    said = re.search(r"@main\((.*?)\) -> \(?(.*?)\)? \{\n", text)
    found = [re.findall(r"tensor<((?:\d+x)*)(\w+(?:<f32>)?)>", part) for part in said.groups()] if said else [[], []]
    shapes = [[([int(size) for size in sizes.split("x")[:-1]], DTYPES.get(d, "float32")) for sizes, d in part] for part in found]
    return shapes if all(size < 10**6 for part in shapes for shape, _ in part for size in shape) else [[], []]


def mutants_run(programs, count, seed):
    found = outcomes([(name, text, *types(text)) for name, text in mutations(programs, count, seed)])
    assert bad(found) == {}
    return kinds(found)


def test_mutated_programs_are_refused_or_run(programs):
    found = mutants_run(programs, 60, 1)
    assert found["refused"] > 20
    assert found["ran"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_mutated_programs_are_refused_or_run(programs, seed):
    assert mutants_run(programs, 500, seed)["ran"] > 50


def test_honest_programs_run(programs):
    found = outcomes([(str(i), text, *types(text)) for i, text in enumerate(programs)])
    assert kinds(found) == {"ran": len(programs)}
