"""The imports of the package, read from its source: at the top of modules, and inside functions."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]


class Imports(NamedTuple):
    """What one module imports: names of modules, or of names in modules."""

    top: set[str]
    late: set[str]


def source_files() -> dict[str, pathlib.Path]:
    """The files of the package by the names of their modules; compiler/ is symgrad.compiler."""
    found = {}
    for folder, package in ((ROOT / "symgrad", "symgrad"), (ROOT / "compiler", "symgrad.compiler")):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if package == "symgrad" and parts[0] == "compiler":
                continue  # the link
            found[".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imports_of(source: str, package: str, modules: set[str]) -> Imports:
    """The imports in a source text in `package`. `modules` are those of symgrad: of a name in one of them only the module counts."""
    top: set[str] = set()
    late: set[str] = set()
    for node, inside in _statements(ast.parse(source), False):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else _imported_from(node, package, modules)
        (late if inside else top).update(names)
    return Imports(top, late)


def _imported_from(node: ast.ImportFrom, package: str, modules: set[str]) -> list[str]:
    above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
    module = ".".join((*above, *filter(None, [node.module])))
    longer = [f"{module}.{alias.name}" for alias in node.names]
    return [name if name in modules else module for name in longer]


def _statements(node: ast.AST, inside: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Import statements, and whether each is inside of a function; those for type checkers are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, inside
        elif isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield from _statements(ast.Module([other], []), inside)
        else:
            yield from _statements(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))


def package_imports() -> dict[str, Imports]:
    """The imports of every module of the package."""
    files = source_files()
    packages = {name: name if path.name == "__init__.py" else name.rpartition(".")[0] for name, path in files.items()}
    return {name: imports_of(path.read_text("utf-8"), packages[name], set(files)) for name, path in files.items()}


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The sets of nodes that reach each other, each sorted: the strongly connected components of more than one node, and loops."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(start: str, neighbours: dict[str, set[str]], finished: list[str]) -> None:
        stack = [(start, iter(sorted(neighbours.get(start, ()))))]
        seen.add(start)
        while stack:
            _, rest = stack[-1]
            following = next((n for n in rest if n not in seen), None)
            if following is None:
                finished.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(sorted(neighbours.get(following, ())))))

    for node in sorted(edges):
        if node not in seen:
            visit(node, edges, order)
    backwards: dict[str, set[str]] = {}
    for node, targets in edges.items():
        for target in targets:
            backwards.setdefault(target, set()).add(node)
    seen.clear()
    found = []
    for node in reversed(order):
        if node not in seen:
            component: list[str] = []
            visit(node, backwards, component)
            if len(component) > 1 or node in edges.get(node, ()):
                found.append(sorted(component))
    return found
