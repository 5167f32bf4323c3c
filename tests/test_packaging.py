"""What gets installed: the list of packages, the name of the compiler, and nothing besides."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def folders_with(pattern: str) -> Iterator[str]:
    """Dotted names of the folders that hold a file like `pattern`; the link symgrad/compiler is not followed."""
    for top, prefix in (("symgrad", ""), ("compiler", "symgrad.")):
        for file in (ROOT / top).rglob(pattern):
            folder = file.parent.relative_to(ROOT)
            if not folder.is_relative_to("symgrad/compiler"):
                yield prefix + ".".join(folder.parts)


def run(code: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter, which does not look for modules in `cwd`."""
    return subprocess.run([sys.executable, "-P", "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


def test_packages_are_those_on_disk():
    listed = PYPROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(set(folders_with("__init__.py")))


def test_every_folder_with_code_is_a_package():
    assert set(folders_with("*.py")) == set(folders_with("__init__.py"))


def test_types_are_shipped():
    assert "py.typed" in PYPROJECT["tool"]["setuptools"]["package-data"]["symgrad"]
    assert (ROOT / "symgrad" / "py.typed").is_file()


def test_stubs_are_shipped():
    data = PYPROJECT["tool"]["setuptools"]["package-data"]
    assert {package for package, patterns in data.items() if "*.pyi" in patterns} == set(folders_with("*.pyi"))


def test_compiler_is_linked_into_symgrad():
    link = ROOT / "symgrad" / "compiler"
    assert link.is_symlink()
    assert link.readlink() == Path("../compiler")


def test_compiler_is_found_under_symgrad(tmp_path):
    done = run("import symgrad.compiler as c; print(c.__name__)", cwd=tmp_path)
    assert done.stdout == "symgrad.compiler\n", done.stderr


def test_no_module_named_compiler_is_installed(tmp_path):
    done = run("import compiler", cwd=tmp_path)
    assert "ModuleNotFoundError: No module named 'compiler'" in done.stderr


def test_compiler_refuses_its_bare_name(tmp_path):
    done = run(f"import sys; sys.path.insert(0, {str(ROOT)!r}); import compiler", cwd=tmp_path)
    assert "ImportError: import this package as 'symgrad.compiler', not as 'compiler'" in done.stderr


def test_version_is_written_once():
    version = PYPROJECT["project"]["version"]
    literal = re.compile(rf"""__version__\s*=\s*["']|["']{re.escape(version)}["']""")
    assert [p for p in (ROOT / "symgrad").rglob("*.py") if literal.search(p.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("file", [".ci/run", "CONTRIBUTING.md"])
def test_readme_test_command_is_the_one_in_use(file):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^python3 -m venv .*pytest.*$", readme, flags=re.MULTILINE)
    assert command in (ROOT / file).read_text(encoding="utf-8").splitlines()
