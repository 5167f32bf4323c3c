"""Files that are damaged, or made to do harm: a clear error, or the right function; nothing is executed, imported or unpickled."""

from __future__ import annotations

import json
import random
import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.export import container, stablehlo as xla
from symgrad.errors import FileError
from symgrad.ops.spec import Meta

FORBIDDEN = {"exec", "compile", "import", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class"}
_watched: list[str] | None = None


def _audit(event, args):
    if _watched is not None and event in FORBIDDEN:
        _watched.append(f"{event} {str(args)[:80]}")


sys.addaudithook(_audit)


def net(x, batch):
    return {"y": (x @ batch["w"]).tanh() * WEIGHT, "pair": (batch["n"] + 1, 3)}


WEIGHT = sg.tensor([1.0, -2.0], requires_grad=True)
ARGS = sg.ones(2, 3), {"w": sg.ones(3, 2), "n": sg.arange(4)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "f.sgx"
    sg.compile(net).export(path, *ARGS)
    sg.load_compiled(path)(*ARGS)  # imports what it needs
    return path.read_bytes()


@pytest.fixture
def load(tmp_path, whole):
    """Load a file's content under the eyes of an audit hook; what loading needs is imported by now."""

    def run(content):
        global _watched
        path = tmp_path / "f.sgx"
        path.write_bytes(content)
        _watched = seen = []
        try:
            return sg.load_compiled(path)
        finally:
            _watched = None
            assert not seen

    return run


def mutated(content, choice):
    """One of the ways in which a file gets damaged."""
    content, at = bytearray(content), choice.randrange(len(content))
    kind = choice.randrange(6)
    if kind == 0:
        content[at] ^= 1 << choice.randrange(8)
    elif kind == 1:
        del content[at:]
    elif kind == 2:
        del content[at : at + choice.randint(1, 20)]
    elif kind == 3:
        content[at:at] = choice.randbytes(choice.randint(1, 20))
    elif kind == 4:
        content[at : at + 20] = choice.randbytes(20)
    else:
        other = choice.randrange(len(content))
        content[at : at + 50], content[other : other + 50] = content[other : other + 50], content[at : at + 50]
    return bytes(content)


def test_a_thousand_damaged_files(whole, load):
    choice, refused = random.Random(0), 0
    for _ in range(1000):
        content = mutated(whole, choice)
        try:
            load(content)
        except FileError as error:
            assert str(error).startswith("load_compiled: ")  # noqa: PT017
            refused += 1
        else:
            assert content == whole
    assert refused > 980


def repacked(whole, tmp_path, change):
    """The file with something changed, and all checksums right."""
    path = tmp_path / "source.sgx"
    path.write_bytes(whole)
    header, parts = container.read(path)
    header, parts = json.loads(json.dumps(header)), dict(parts)
    header = change(header, parts) or header
    container.write(path, header, parts)
    return path.read_bytes()


def random_node(choice, depth=0):
    """Anything that JSON may hold."""
    words = ["leaf", "value", "dict", "list", "record", "shape", "../../etc/passwd", "float32", "__import__('os')", "", "x" * 5000]
    plain = [None, True, False, 0, 1, -1, 2**64, 10**30, 1e308, *words]
    kind = choice.randrange(4) if depth < 4 else 3
    if kind == 0:
        return [random_node(choice, depth + 1) for _ in range(choice.randrange(4))]
    if kind == 1:
        return {choice.choice(words): random_node(choice, depth + 1) for _ in range(choice.randrange(4))}
    return choice.choice(plain)


def places(node, path=()):
    """The ways to all nodes inside."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def test_headers_that_say_anything(whole, load, tmp_path):
    """Checksums are right, so that every field is looked at."""
    choice, refused = random.Random(1), 0

    def change(header, parts):
        *way, last = choice.choice([path for path in places(header) if path])
        node = header
        for key in way:
            node = node[key]
        if choice.random() < 0.2:
            del node[last]
        else:
            node[last] = random_node(choice)

    for _ in range(250):
        try:
            load(repacked(whole, tmp_path, change))
        except FileError:
            refused += 1
    assert refused > 180  # labels, names and versions may be any text


def program(whole, tmp_path, load, change):
    def changed(header, parts):
        parts["forward.mlir"] = change(parts["forward.mlir"].decode()).encode()

    return load(repacked(whole, tmp_path, changed))


def test_programs_that_say_anything(whole, load, tmp_path):
    """Text that MLIR parses, and most often refuses."""
    choice, refused = random.Random(2), 0

    def change(text):
        words, at = text.split(" "), choice.randrange(len(text))
        kind = choice.randrange(3)
        if kind == 0:
            return text[:at] + text[at + choice.randint(1, 30) :]
        if kind == 1:
            return text[:at] + choice.choice(words) + text[at:]
        other = choice.choice(words)
        return text[:at] + other + text[at + len(other) :]

    for _ in range(100):
        try:
            program(whole, tmp_path, load, change)
        except FileError:
            refused += 1
    assert refused > 75


def module(body, inputs="%arg0: tensor<2xf32>", outputs="tensor<2xf32>"):
    return f"module @m {{\n  func.func public @main({inputs}) -> ({outputs}) {{\n{body}\n  }}\n}}"


CALLS = [
    "xla_ffi_python_cpu_callback", "xla_python_cpu_callback", "tf.call_tf_function", "tpu_custom_call",
    "xla_ffi_partitioned_python_cpu_callback", "triton_kernel_call",
    "__gpu$xla.gpu.triton", "AllocateBuffer", "system", "lapack_dpotrf_ffi ", "xlapack_dpotrf_ffi", "",
]  # fmt: skip


@pytest.mark.parametrize("target", CALLS)
def test_a_program_calls_no_code_by_name(target):
    call = f'%0 = "stablehlo.custom_call"(%arg0) <{{call_target_name = "{target}"}}> : (tensor<2xf32>) -> tensor<2xf32>'
    call += "\nreturn %0 : tensor<2xf32>"
    types = [Meta((2,), np.dtype(np.float32))]
    with pytest.raises(FileError, match="calls code by the name"):
        xla.check(module(call), types, types)
    hidden = module("%0 = func.call @other(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32>")
    inner = f"  func.func private @other(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {{\n{call}\n  }}\n}}"
    with pytest.raises(FileError, match="calls code by the name"):
        xla.check(hidden[:-1] + inner, types, types)


REFUSED = {
    "binary": "ML\xefR\r\n",
    "binary after text": "module ML\xefR",
    "no module": "func.func @main() { return }",
    "resources": module("return %arg0 : tensor<2xf32>") + '\n{-# dialect_resources: { builtin: { a: "0x080000000000803F" } } #-}',
    "no main": "module { }",
    "another op": module('%0 = "sdy.constant"() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<2xf32>\nreturn %0 : tensor<2xf32>'),
    "unknown op": module('%0 = "evil.op"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32>'),
    "another type": module("return %arg0 : tensor<3xf32>", "%arg0: tensor<3xf32>", "tensor<3xf32>"),
    "another dtype": module("return %arg0 : tensor<2xf64>", "%arg0: tensor<2xf64>", "tensor<2xf64>"),
    "another result": module("%0 = stablehlo.constant dense<1.0> : tensor<3xf32>\nreturn %0 : tensor<3xf32>", outputs="tensor<3xf32>"),
    "more inputs": module("return %arg0 : tensor<2xf32>", "%arg0: tensor<2xf32>, %arg1: tensor<2xf32>"),
    "an unknown size": module("return %arg0 : tensor<?xf32>", "%arg0: tensor<?xf32>", "tensor<?xf32>"),
    "brackets": "module " + "{" * 100_000,
    "types": "module { func.func @main(%arg0: " + "tuple<" * 50_000 + ") { return } }",
    "a wrong result": module("%0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>\nreturn %0 : tensor<3xf32>"),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_programs_that_are_refused(text):
    types = [Meta((2,), np.dtype(np.float32))]
    with pytest.raises(FileError):
        xla.check(text, types, types)


def test_the_test_above_can_fail():
    types = [Meta((2,), np.dtype(np.float32))]
    xla.check(module("return %arg0 : tensor<2xf32>"), types, types)
    found = xla.Loaded(module("%0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>\nreturn %0 : tensor<2xf32>"), types, types)
    assert found([np.ones(2, np.float32)])[0].tolist() == [2.0, 2.0]


def _set(key, value):
    def change(header, parts):
        header[key] = value

    return change


def _drop_part(name):
    return lambda header, parts: parts.pop(name) and None


def _add_part(name):
    return lambda header, parts: parts.update({name: b""})


CHANGES = {
    "another format": (_set("format", "pickle"), "no symgrad function in it"),
    "a newer version": (_set("version", 2), "it is of version 2, and this symgrad reads version 1"),
    "a version that is true": (_set("version", True), "version"),
    "another platform": (_set("platform", "tpu"), "exported for tpu, and here JAX runs on cpu"),
    "one field more": (_set("code", "import os"), "its header should have arguments, .* and has arguments, code"),
    "no results": (_set("results", []), "leaves"),
    "a program less": (_drop_part("vjp.mlir"), "should have the parts"),
    "a path as a part": (_add_part("../../evil"), "should have the parts"),
    "state that is too short": (lambda header, parts: parts.update({"state/0": b"123"}), r"WEIGHT|c1.* has 3 bytes in place of 8"),
    "text that is none": (lambda header, parts: parts.update({"graph.txt": b"\xff"}), "'graph.txt' is no text"),
    "too many elements": (_set("results", [{"shape": [2**40, 2**40], "dtype": "float32"}] * 2), "so many elements there cannot be"),
    "a record with a name that means something": (
        _set("structure", {"record": ["R", [["__new__", {"leaf": 0}], ["b", {"leaf": 1}]]]}),
        "a structure is not as it should be",
    ),
    "a negative size": (_set("results", [{"shape": [-1], "dtype": "float32"}]), "should be a list of sizes"),
    "an unknown dtype": (_set("results", [{"shape": [], "dtype": "object"}]), "the dtype of a result is 'object'; there are"),
    "no parameter": (_set("parameters", [{"name": "a b", "kind": "any", "structure": {"value": 1}}]), "no parameter of Python's"),
    "slopes of what has none": (_set("sloping", [2]), r"its sloping inputs are \[2\], and should be some of \[0, 1, 3\], in order"),
}


@pytest.mark.parametrize(("change", "text"), CHANGES.values(), ids=CHANGES)
def test_what_is_wrong_is_said(whole, load, tmp_path, change, text):
    with pytest.raises(FileError, match=rf"load_compiled: .*f.sgx cannot be read: .*{text}"):
        load(repacked(whole, tmp_path, change))


def test_nothing_may_follow(whole, load):
    with pytest.raises(FileError, match="1 bytes follow its last part"):
        load(whole + b"x")


def test_files_of_other_kinds(load, tmp_path):
    for content in (b"", b"\x89SGX", b"PK\x03\x04", b"\x80\x04\x95", b"\x89SGX\r\n\x1a\n" + b"\xff" * 100, b"\x89SGX\n\x1a\n" + bytes(100)):
        with pytest.raises(FileError):
            load(content)
    with pytest.raises(FileNotFoundError):
        sg.load_compiled(tmp_path / "nothing.sgx")


def test_a_deep_header(load):
    text = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(FileError, match="its header is no JSON"):
        load(container._MAGIC + len(text).to_bytes(8, "little") + container._digest(text) + text)


def test_a_deep_structure(whole, load, tmp_path):
    node = {"leaf": 0}
    for _ in range(200):
        node = {"list": [node]}
    with pytest.raises(FileError, match="deeper than 50 levels"):
        load(repacked(whole, tmp_path, _set("structure", node)))


def test_truth_values_are_true_or_false(tmp_path, load):
    mask = sg.tensor([True, False])
    sg.compile(lambda x: sg.where(mask, x, 0)).export(tmp_path / "mask.sgx", sg.ones(2))
    content = repacked((tmp_path / "mask.sgx").read_bytes(), tmp_path, lambda header, parts: parts.update({"state/0": b"\x07\x00"}))
    found = load(content)
    (state,) = found.state.values()
    assert state.numpy().view(np.uint8).tolist() == [1, 0]
    assert found(sg.ones(2)).tolist() == [1.0, 0.0]


def test_the_audit_hook_sees_what_it_should():
    global _watched
    _watched = seen = []
    try:
        exec("1 + 1")
    finally:
        _watched = None
    assert [word.split()[0] for word in seen] == ["compile", "exec"]
