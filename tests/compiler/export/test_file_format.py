"""The format of exported files, byte by byte and field by field: what is accepted, and what is just not."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from hashlib import blake2b

import numpy as np
import pytest

from symgrad.compiler.export import container, pytree_json
from symgrad.compiler.export.description import FORMAT, Description, described
from symgrad.errors import FileError, TraceError
from symgrad.ops.spec import Meta
from symgrad.pytree import LEAF, flatten

# the container


def digest(content):
    return blake2b(content, digest_size=32).digest()


def file_of(header, *parts):
    """A file as the documentation of the format says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"\x89SGX\r\n\x1a\n" + len(text).to_bytes(8, "little") + digest(text) + text + b"".join(parts)


def part(name, content, **other):
    return {"name": name, "size": len(content), "blake2b": digest(content).hex(), **other}


def read(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    return container.read(path)


def test_a_file_is_what_the_format_says(tmp_path):
    parts = {"b": b"second", "a": b"", "c": bytes(range(256))}
    container.write(tmp_path / "file", {"x": [1, None]}, parts)
    content = (tmp_path / "file").read_bytes()
    assert content == file_of({"x": [1, None], "parts": [part(*item) for item in parts.items()]}, *parts.values())
    header, found = container.read(tmp_path / "file")
    assert header == {"x": [1, None]}
    assert list(found.items()) == list(parts.items())


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"old")

    def fail(*args):
        raise OSError("no room")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="no room"):
                container.write(tmp_path / "file", {}, {})
        assert os.listdir(tmp_path) == ["file"]
        assert (tmp_path / "file").read_bytes() == b"old"
    with pytest.raises(ValueError, match="Out of range float"):
        container.write(tmp_path / "file", {"x": float("nan")}, {})


def test_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: order.append(os.fstat(file).st_size) or fsync(file))
    monkeypatch.setattr(os, "replace", lambda *paths: order.append("name") or replace(*paths))
    container.write(tmp_path / "file", {}, {"a": b"content"})
    assert order == [(tmp_path / "file").stat().st_size, "name"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    container.write(tmp_path / "link", {}, {})
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "folder") == ["file"]


def test_the_header_may_be_as_long_as_the_limit(tmp_path, monkeypatch):
    length = len(json.dumps({"x": 1, "parts": []}))
    monkeypatch.setattr(container, "_MAX_HEADER_BYTES", length)
    container.write(tmp_path / "file", {"x": 1}, {})
    assert container.read(tmp_path / "file")[0] == {"x": 1}
    with pytest.raises(ValueError, match=f"takes {length + 1} bytes, and {length} is the limit"):
        container.write(tmp_path / "file", {"x": 10}, {})
    with pytest.raises(FileError, match=f"its header has {length + 1} bytes, more than there are or may be"):
        read(tmp_path, file_of({"x": 10, "parts": []}))


WRONG = {
    "a cut header": (file_of({"parts": []})[:-1], "more than there are or may be"),
    "another header": (file_of({"parts": []})[:-2] + b" }", "its header has another checksum"),
    "a list": (file_of([]), "no JSON object"),
    "a key twice": (file_of(b'{"parts": [], "parts": []}'), "a key stands twice"),
    "NaN": (file_of(b'{"parts": [], "x": NaN}'), "NaN is no number of JSON's"),
    "no parts": (file_of({}), "does not list its parts"),
    "parts in an object": (file_of({"parts": {}}), "does not list its parts"),
    "a part twice": (file_of({"parts": [part("a", b"1")] * 2}, b"1", b"1"), "two parts 'a'"),
    "a cut part": (file_of({"parts": [part("a", b"12")]}, b"1"), "'a' ends after the file"),
    "a damaged part": (file_of({"parts": [part("a", b"12")]}, b"13"), "'a' has another checksum"),
    "a tail": (file_of({"parts": [part("a", b"12")]}, b"12", b"3"), "1 bytes follow"),
    "one field more": (file_of({"parts": [part("a", b"", x=1)]}), "not described by name, size and blake2b"),
    "one field less": (file_of({"parts": [{"name": "a", "size": 0}]}), "not described by name, size and blake2b"),
    "a part that is a text": (file_of({"parts": ["a"]}), "not described by name, size and blake2b"),
    "a name that is a number": (file_of({"parts": [part(1, b"")]}), "a text, a size and a checksum"),
    "a size that is true": (file_of({"parts": [part("a", b"1", size=True)]}, b"1"), "a text, a size and a checksum"),
    "a negative size": (file_of({"parts": [part("a", b"1", size=-1)]}, b"1"), "a text, a size and a checksum"),
    "a checksum that is a number": (file_of({"parts": [part("a", b"1", blake2b=1)]}, b"1"), "a text, a size and a checksum"),
}


@pytest.mark.parametrize(("content", "text"), WRONG.values(), ids=WRONG)
def test_a_file_that_breaks_the_format_says_where(tmp_path, content, text):
    with pytest.raises(FileError, match=text):
        read(tmp_path, content)


# structures

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Batch:
    x: object
    n: object


STRUCTURES = {
    "leaf": (LEAF, {"leaf": 0}),
    "values": ([None, True, 3, "a"], {"list": [{"value": None}, {"value": True}, {"value": 3}, {"value": "a"}]}),
    "float": ([1.5], {"list": [{"float": "0x1.8000000000000p+0"}]}),
    "tuple": ((LEAF, [LEAF]), {"tuple": [{"leaf": 0}, {"list": [{"leaf": 1}]}]}),
    "dict": ({"a": LEAF, 1: LEAF, 2.0: 0}, {"dict": [
        [{"value": "a"}, {"leaf": 0}], [{"value": 1}, {"leaf": 1}], [{"float": "0x1.0000000000000p+1"}, {"value": 0}],
    ]}),
    "named tuple": (Pair(LEAF, 2), {"record": ["Pair", [["first", {"leaf": 0}], ["second", {"value": 2}]]]}),
}  # fmt: skip


@pytest.mark.parametrize(("structure", "node"), STRUCTURES.values(), ids=STRUCTURES)
def test_structures_are_what_the_format_says(structure, node):
    leaves = str(structure).count("*")
    assert pytree_json.encode(structure, fixed=False) == node
    pytree_json.check(node, leaves)
    assert pytree_json.has_leaves(node) == (leaves > 0)
    for wrong in {leaves + 1, max(leaves - 1, 0)} - {leaves}:
        with pytest.raises(FileError, match=f"and should have {wrong}, in order"):
            pytree_json.check(node, wrong)
    numbers = list(range(10, 10 + leaves))
    rebuilt = pytree_json.build(node, numbers)
    assert flatten(rebuilt, lambda x: x in numbers and type(x) is int)[0] == numbers
    if structure is not LEAF:
        assert len(rebuilt) == len(structure)
    given = [None] * leaves
    pytree_json.match(node, rebuilt, "x", given)
    assert given == numbers


def test_a_record_is_a_tuple_with_names():
    node = pytree_json.encode(flatten(Batch(np.ones(2), 3), lambda x: isinstance(x, np.ndarray))[1], fixed=False)
    assert node == {"record": ["Batch", [["x", {"leaf": 0}], ["n", {"value": 3}]]]}
    found = pytree_json.build(node, [7])
    assert (found.x, found.n) == tuple(found) == (7, 3)
    assert repr(found) == "Batch(x=7, n=3)"
    assert found._fields == ("x", "n")


def test_private_names_and_unknown_objects_are_not_written():
    hidden = collections.namedtuple("_Hidden", "x")
    with pytest.raises(TraceError, match="_Hidden or its field _Hidden has a private name"):
        pytree_json.encode(hidden(LEAF), fixed=False)
    with pytest.raises(TraceError, match="which no file holds"):
        pytree_json.encode([1j], fixed=False)
    assert pytree_json.encode([1j], fixed=True) == {"list": [{"fixed": "complex"}]}
    assert pytree_json.encode({(1, 2): LEAF}, fixed=True) == {"fixed": "dict"}  # its key is no value


def nested(depth, node):
    for _ in range(depth):
        node = [node] if node is LEAF or isinstance(node, list) else {"list": [node]}
    return node


def test_structures_are_fifty_levels_deep_at_most():
    node = pytree_json.encode(nested(50, LEAF), fixed=False)
    pytree_json.check(node, 1)
    with pytest.raises(TraceError, match="deeper than 50 levels"):
        pytree_json.encode(nested(51, LEAF), fixed=False)
    for wrap in (
        lambda x: {"list": [x]}, lambda x: {"tuple": [x]}, lambda x: {"dict": [[{"value": 1}, x]]}, lambda x: {"record": ["R", [["a", x]]]},
    ):  # fmt: skip
        with pytest.raises(FileError, match="deeper than 50 levels"):
            pytree_json.check(wrap(node), 1)


BROKEN = [
    {}, [], {"leaf": 0, "value": 1}, {"leaf": "0"}, {"leaf": True}, {"list": {}}, {"tuple": "ab"}, {"dict": {}}, {"dict": [[{"value": 1}]]},
    {"dict": [[{"leaf": 0}, {"value": 1}]]}, {"dict": [["a", {"value": 1}]]}, {"dict": [[{}, {"value": 1}]]},
    {"dict": [[{"value": 1, "float": "0x1p0"}, {"value": 1}]]}, {"record": ["R"]},
    {"record": ["R", [["a", {"value": 1}], ["a", {"value": 1}]]]}, {"record": ["R", [["a"]]]}, {"record": ["a b", []]}, {"record": [1, []]},
    {"record": ["R", [["_a", {"value": 1}]]]}, {"value": 1.5}, {"value": []}, {"float": "one"}, {"float": 1.5}, {"float": "0x1p99999"},
    {"fixed": 1}, {"other": 1},
]  # fmt: skip


@pytest.mark.parametrize("node", BROKEN, ids=str)
def test_nodes_that_no_structure_has_are_refused(node):
    for whole in (node, {"list": [node]}):
        with pytest.raises(FileError, match="a structure"):
            pytree_json.check(whole, 0)


MISMATCHES = {
    "a list for a longer list": ({"list": [{"leaf": 0}, {"leaf": 1}]}, [1], r"x: expected a list of 2"),
    "a number for a tuple": ({"tuple": [{"leaf": 0}]}, 1, r"x: expected a tuple of 1"),
    "a part of a list": ({"list": [{"leaf": 0}, {"tuple": []}]}, [1, [2]], r"x\.1: expected a tuple of 0"),
    "another key": ({"dict": [[{"value": "a"}, {"leaf": 0}]]}, {"b": 1}, "expected a dict with the keys a; got the keys b"),
    "no dict": ({"dict": [[{"value": "a"}, {"leaf": 0}]]}, [1], "expected a dict with the keys a; got"),
    "a part of a dict": ({"dict": [[{"value": "a"}, {"list": []}]]}, {"a": [1]}, r"x\.a: expected a list of 0"),
    "no field": ({"record": ["R", [["a", {"leaf": 0}], ["b", {"leaf": 1}]]]}, 3, "x: expected a R, with a, b"),
    "a fixed argument": ({"fixed": "Config"}, 3, "as the Config that it was exported with"),
    "True for 1": ({"value": 1}, True, "it is part of the program, as 1"),
    "minus zero": ({"float": "0x0.0p+0"}, -0.0, "it is part of the program, as 0.0"),
    "another text": ({"value": "a"}, "b", "it is part of the program, as 'a'"),
}


@pytest.mark.parametrize(("node", "given", "text"), MISMATCHES.values(), ids=MISMATCHES)
def test_arguments_that_do_not_match_are_named(node, given, text):
    with pytest.raises(TypeError, match=text):
        pytree_json.match(node, given, "x", [None] * 2)


# descriptions


def header(**changes):
    scalar, vector = ({"shape": shape, "dtype": "float32"} for shape in ([], [3]))
    return {
        "format": FORMAT, "version": 1, "name": "f",
        "parameters": [{"name": "x", "kind": "any", "structure": {"leaf": 0}}, {"name": "k", "kind": "keyword", "structure": {"leaf": 1}}],
        "arguments": [{"label": "x", **vector, "number": False}, {"label": "k", "shape": [2], "dtype": "int64", "number": True}],
        "state": [{"label": "w", **vector, "requires_grad": True}],
        "sloping": [0, 2], "results": [scalar], "structure": {"leaf": 0}, "platform": "cpu", "graph": "abc", "versions": {"jax": "1"},
        **changes,
    }  # fmt: skip


def test_a_description_is_read_as_it_is_written():
    found = described(header())
    assert found.json() == header()
    assert found.wrt == (0, 2)
    assert [x.number for x in found.inputs] == [False, True, False]
    assert [x.requires_grad for x in found.inputs] == [False, False, True]
    assert str(found) == "f(x: float32[3], k: int64[2]) -> float32[]\n    with w: float32[3]"


def test_the_programs_of_a_file_follow_from_its_description():
    float32 = np.dtype(np.float32)
    x, k, w, y = Meta((3,), float32), Meta((2,), np.dtype(np.int64)), Meta((3,), float32), Meta((), float32)
    assert described(header()).programs() == {
        "forward": ([x, k, w], [y]), "vjp": ([x, k, w, y], [x, w]), "value_and_grad": ([x, k, w], [y, x, w]),
    }  # fmt: skip
    assert list(described(header(sloping=[])).programs()) == ["forward", "value_and_grad"]
    for results, scalar in (
        ([{"shape": [1, 1], "dtype": "float64"}], True), ([{"shape": [2], "dtype": "float32"}], False),
        ([{"shape": [], "dtype": "int64"}], False), ([{"shape": [], "dtype": "float32"}] * 2, False),
    ):  # fmt: skip
        structure = {"tuple": [{"leaf": i} for i in range(len(results))]}
        assert described(header(results=results, structure=structure)).is_scalar == scalar
    only_integers = header(
        parameters=[{"name": "k", "kind": "any", "structure": {"leaf": 0}}], arguments=[header()["arguments"][1]], state=[], sloping=[]
    )
    assert not described(only_integers).is_scalar


def with_shape(shape):
    return {"results": [{"shape": shape, "dtype": "float32"}]}


ACCEPTED = [with_shape([1] * 64), with_shape([2**48 - 1]), with_shape([2**24, 2**24]), with_shape([0]), {"sloping": []}, {"sloping": [2]}]
REFUSED = {
    "dimensions": (with_shape([1] * 65), "should be a list of sizes"),
    "size": (with_shape([2**48]), "should be a list of sizes"),
    "elements": (with_shape([2**24, 2**24 + 1]), "so many elements there cannot be"),
    "true": (with_shape([True]), "should be a list of sizes"),
    "fraction": (with_shape([1.5]), "should be a list of sizes"),
    "text": (with_shape("11"), "should be a list of sizes"),
    "one field more": ({"results": [{"shape": [], "dtype": "float32", "x": 1}]}, "a result is .*and should have shape, dtype"),
    "order": ({"sloping": [2, 0]}, "in order"),
    "twice": ({"sloping": [0, 0]}, "in order"),
    "true is no position": ({"sloping": [False]}, "in order"),
    "name": ({"name": 3}, "its name is '3', and should be a text"),
    "platform": ({"platform": None}, "its platform is 'None', and should be a text"),
    "graph": ({"graph": []}, "its graph is .*and should be a text"),
    "state": ({"state": {}}, "its state is .*and should be a list"),
    "versions": ({"versions": {"jax": 1}}, "its versions are no object of texts"),
    "versions in a list": ({"versions": []}, "its versions are no object of texts"),
    "flag": ({"state": [{"label": "w", "shape": [3], "dtype": "float32", "requires_grad": 1}]}, "requires_grad of an input is '1'"),
    "no results": ({"results": [], "structure": {"tuple": []}}, "its function has no results"),
    "structure": ({"structure": {"leaf": 1}}, "leaves"),
    "kind": ({"parameters": [{"name": "x", "kind": "some", "structure": {"leaf": 0}}]}, "no parameter of Python's"),
    "a default": ({"parameters": [{"name": "x", "kind": "any", "structure": {"leaf": 0}, "default": {"leaf": 0}}]}, "leaves"),
    "no default": ({"parameters": [{"name": "x", "kind": "any", "structure": {"leaf": 0}, "default": 3}]}, "a structure is not as"),
    "leaves": ({"parameters": [{"name": "x", "kind": "any", "structure": {"leaf": 0}}]}, "leaves"),
    "names": ({"parameters": [{"name": "x", "kind": "any", "structure": {"leaf": i}} for i in range(2)]}, "none of a Python function"),
}


@pytest.mark.parametrize("changes", ACCEPTED, ids=str)
def test_descriptions_at_the_limit_are_accepted(changes):
    assert isinstance(described(header(**changes)), Description)


@pytest.mark.parametrize(("changes", "text"), REFUSED.values(), ids=REFUSED)
def test_descriptions_beyond_the_limit_are_refused(changes, text):
    with pytest.raises(FileError, match=text):
        described(header(**changes))
