"""The tool that seeds one-line faults: what it changes, what it leaves alone, and that it tells a noticed fault from one that is not."""

import ast
import importlib.util
import itertools
import os
from pathlib import Path

import pytest
from mutants import __main__ as tool
from mutants.blocks import Hits, instrumented
from mutants.faults import draw, executable_lines, faults
from mutants.forking import plant
from mutants.nursery import NEEDS_PROCESS, Nursery
from mutants.recording import sample
from mutants.selection import Map, select

SOURCE = '''"""A docstring."""
import math

def f(x, y):
    """Another."""
    if x < y and not math.isnan(x):
        return x + 2
    total = g(x, y, keep=True)
    total += 1
    raise ValueError(f"no {x + 1}")
    return zip(x, y, strict=True)
'''


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    return path


def test_lines_that_can_be_wrong(module):
    assert executable_lines(module) == [6, 7, 8, 9, 11]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (6, {"x <= y", "x < y or", "math.isnan(x)):"}),
        (7, {"x - 2", "(3)", "return None"}),
        (8, {"g(y, x, keep=True)", "keep=(False)"}),
        (9, {"total -= 1", "pass", "(2)"}),
        (11, {"zip(y, x, strict=True)", "return None"}),
    ],
)
def test_faults_of_a_line(module, line, wanted):
    texts = [fault.text.splitlines()[line - 1] for fault in faults(module, line, "module.py")]
    assert len(texts) == len(set(texts)) == len(wanted)
    assert all(any(part in text for text in texts) for part in wanted)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("return None", set()),
        ("return False", {"return (True)"}),
        ("x = max(a, b)", set()),
        ("x = np.result_type(a, b)", set()),
        ("x = g(a, a)", set()),
        ("x = g(a, b)", {"x = (g(b, a))"}),
    ],
)
def test_changes_that_change_nothing_are_no_faults(tmp_path, line, wanted):
    path = tmp_path / "module.py"
    path.write_text(f"def f():\n    {line}\n")
    assert executable_lines(path) == ([2] if wanted else [])
    assert {fault.text.splitlines()[1].strip() for fault in faults(path, 2, "module.py")} == wanted


def test_faults_parse_and_differ_in_one_statement(module):
    for line in executable_lines(module):
        for fault in faults(module, line, "module.py"):
            ast.parse(fault.text)
            changed = [i for i, pair in enumerate(zip(SOURCE.splitlines(), fault.text.splitlines(), strict=True), 1) if pair[0] != pair[1]]
            assert changed == [line]


def test_a_seed_draws_the_same_faults():
    first, again, other = ([*itertools.islice(draw(tool.ROOT, ("compiler/ir",), seed), 5)] for seed in (1, 1, 2))
    assert first == again != other


def test_a_fault_survives_only_where_no_test_fails(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "module.py").write_text("def double(x):\n    return x + x\n")
    (tree / "test_module.py").write_text(
        "from module import double\n\ndef test_two():\n    assert double(2) == 4\n\ndef test_runs():\n    double(0)\n"
    )
    (fault,) = [x for x in faults(Path(tree, "module.py"), 2, "module.py") if x.what == "other operator"]
    times = {"test_module.py::test_two": 0.1, "test_module.py::test_runs": 0.1}
    assert tool.noticed(tree, fault, ["test_module.py::test_runs"], times) is None
    assert tool.noticed(tree, fault, ["test_module.py::test_two"], times) == "FAILED test_module.py::test_two"
    # a test that the map does not know
    assert tool.noticed(tree, fault, ["test_module.py::test_runs"], {"test_module.py::test_runs": 0.1}) == "FAILED test_module.py::test_two"
    assert (tree / "module.py").read_text() == "def double(x):\n    return x + x\n"


def test_a_test_that_fails_anyway_has_noticed_nothing(tmp_path):
    (tmp_path / "module.py").write_text("def double(x):\n    return x + x\n")
    (tmp_path / "test_module.py").write_text("def test_one():\n    assert False\n\ndef test_two():\n    assert True\n")
    fault = next(faults(tmp_path / "module.py", 2, "module.py"))
    for known in ("one", "two"):
        name = f"test_module.py::test_{known}"
        assert tool.noticed(tmp_path, fault, [name], {name: 0.1}) is None


def test_few_tests_before_many():
    times = {"a::1": 1.0, "a::2": 20.0, "b::1": 2.0, "c::1": 1.0}
    assert [*tool.batches([*times], times, files=2, seconds=5)] == [["a::1", "b::1"], ["a::2", "c::1"]]
    assert [*tool.batches(["a::1"], times)] == [["a::1"]]


TIMES = {"test_a.py::one": 1.0, "test_a.py::two": 5.0, "test_module.py::three": 2.0, "test_b.py::four": 1.0, "test_b.py::five": 0.5}


@pytest.mark.parametrize(
    ("line", "seconds", "wanted", "complete"),
    [
        (2, 100, ["three", "one", "two"], True),  # its function first, the file with its name before others, then what is near
        (2, 3.5, ["three", "one"], True),
        (2, 1.5, ["one"], False),
        (4, 100, ["three", "one", "two"], True),  # at import: all that run a function of the file
    ],
)
def test_tests_of_a_fault(tmp_path, line, seconds, wanted, complete):
    path = tmp_path / "module.py"
    path.write_text("def f(x):\n    return x + 1\n\nLIMIT = 3\ndef g(x):\n    return x * 2\n")
    lines = {"test_a.py::one": {2, 4}, "test_a.py::two": {6}, "test_module.py::three": {2}, "test_b.py::four": {4}}
    tests = select(next(faults(path, line, "symgrad/module.py")), lines, TIMES, seconds)
    assert [name.partition("::")[2] for name in tests.names] == wanted
    assert tests.complete is complete


def test_variants_left_out_of_the_map_follow_those_that_run_the_line(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("def f(x):\n    return x + 1\n")
    times = {"t.py::a[0]": 1.0, "t.py::a[1]": 1.0, "t.py::b[0]": 1.0, "t.py::b[1]": 1.0}
    tests = select(next(faults(path, 2, "module.py")), {"t.py::a[0]": {2}}, times, 100, frozenset({"t.py::a[0]", "t.py::b[0]"}))
    assert tests == (["t.py::a[0]", "t.py::a[1]"], True)


def test_a_sample_has_variants_of_every_test():
    names = ["t.py::alone", *(f"t.py::many[{i}]" for i in range(10)), "t.py::few[0]"]
    assert sample(names, 2) == {"t.py::alone", "t.py::many[0]", "t.py::many[5]", "t.py::few[0]"}
    assert sample(names, 0) == {*names}


BLOCKS = """
def f(x):
    '''Kept.'''
    total = 0
    for i in range(x):
        if i > 1:
            total += i
    try:
        g = lambda y: (
            y + 1
        )
    except ValueError:
        g = None
    return total if x < 3 else g(total)
"""


@pytest.mark.parametrize(
    ("x", "wanted"),
    [(0, {3, 4, 5, 8, 9, 10, 11, 14}), (2, {3, 4, 5, 6, 8, 9, 10, 11, 14}), (3, {3, 4, 5, 6, 7, 8, 9, 10, 11, 14})],
)
def test_instrumented_code_notes_the_lines_that_run(x, wanted):
    hits, names, plain = Hits(20), {}, {}
    code, lines = instrumented(BLOCKS, "module.py", hits, 3)
    exec(code, names)
    exec(BLOCKS, plain)
    assert names["f"](x) == plain["f"](x)
    assert {line for i, found in enumerate(lines) for line in found if hits[i + 3]} == wanted
    assert names["f"].__code__.co_names == plain["f"].__code__.co_names
    assert hash(names["f"].__code__) is not None


def test_a_map_is_read_as_the_suite_has_written_it(tmp_path):
    tree, folder = tmp_path / "tree", tmp_path / "map"
    (tree / "symgrad").mkdir(parents=True)
    folder.mkdir()
    (tree / "symgrad" / "__init__.py").write_text("def f(x):\n    if x:\n        return 1\n    return 2\n")
    (tree / "pytest.ini").write_text("[pytest]\n")
    (tree / "test_f.py").write_text(
        "import pytest\nfrom symgrad import f\n\n@pytest.mark.parametrize('x', [0, 1, 2, 3])\ndef test_f(x):\n    assert f(x) < 3\n\n"
        "def test_wrong():\n    assert f(0) == 1\n"
    )
    tool.make_map(tree, folder, 1, variants=2)
    known = Map.read(folder)
    assert known.recorded == {"test_f.py::test_f[0]", "test_f.py::test_f[2]"}
    assert known.times.keys() - known.recorded == {"test_f.py::test_f[1]", "test_f.py::test_f[3]"}
    assert known.lines("symgrad/__init__.py") == {"test_f.py::test_f[0]": {2, 4}, "test_f.py::test_f[2]": {2, 3}}
    assert known.lines("symgrad/other.py") == {}


FORKED = """
def outer(x):
    def inner(y):
        return x + y
    return inner

class Box:
    size = 3

    @property
    def double(self):
        return self.size * 2

table = {"half": lambda x: x / 2}
kept = outer(10)
"""


@pytest.mark.parametrize(
    ("before", "after", "call", "wanted"),
    [
        ("return x + y", "return x - y", lambda m: m.outer(1)(2), -1),
        ("return x + y", "return x - y", lambda m: m.kept(2), 8),  # a closure that was made before
        ("self.size * 2", "self.size / 2", lambda m: m.Box().double, 1.5),
        ("x / 2", "x * 2", lambda m: m.table["half"](3), 6),
    ],
)
def test_a_fork_replaces_the_code_of_loaded_functions(tmp_path, before, after, call, wanted):
    path = tmp_path / "forked_module.py"
    path.write_text(FORKED)
    module = loaded(path)
    assert call(module) != wanted
    assert plant(path, FORKED, FORKED.replace(before, after))
    assert call(module) == wanted


@pytest.mark.parametrize(("before", "after"), [("size = 3", "size = 4"), ("outer(10)", "outer(11)"), ("return x + y", "return x + y")])
def test_statements_that_have_run_need_a_fresh_process(tmp_path, before, after):
    path = tmp_path / "forked_module.py"
    path.write_text(FORKED)
    loaded(path)
    assert not plant(path, FORKED, FORKED.replace(before, after))


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_nursery_tells_a_noticed_fault_from_one_that_is_not(tmp_path):
    tree = tmp_path / "tree"
    (tree / "symgrad" / "compiler").mkdir(parents=True)
    for package in (tree / "symgrad", tree / "symgrad" / "compiler"):
        (package / "__init__.py").touch()
    module, text = tree / "symgrad" / "module.py", "def double(x):\n    return x + x\n"
    module.write_text(text)
    tests = ["test_module.py::test_two", "test_module.py::test_runs", "test_module.py::test_warns"]
    (tree / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tree / "test_module.py").write_text(
        "from symgrad.module import double\nimport pytest, warnings\n\ndef test_two():\n    assert double(2) == 4\n\n"
        "def test_runs():\n    double(0)\n\n"
        "@pytest.mark.filterwarnings('ignore')\ndef test_warns():\n    warnings.warn('ignored')\n"
    )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree), str(Path(tool.__file__).parents[1])))}
    with Nursery(tree, variables) as nursery:
        module.write_text(text.replace("+", "-"))  # the first request: the nursery must have loaded the file before
        assert nursery.failure("symgrad/module.py", text, tests, {}) == f"FAILED {tests[0]}"
        assert nursery.failure("symgrad/module.py", text, tests[1:], {}) is None
        module.write_text(text.replace("def double", "size = 3\n\n\ndef double"))
        assert nursery.failure("symgrad/module.py", text, tests, {}) == NEEDS_PROCESS
        module.write_text(text)
        assert nursery.failure("symgrad/module.py", text, tests, {}) is None
