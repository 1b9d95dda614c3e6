"""Import graph of the package: its modules, the imports among files and folders, and their cycles.

Imports count wherever they stand in a file, inside functions and for type checkers too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("comm", "compiler", "launch", "orchestrator", "rank_tables", "worker")
ROOT_MODULES = ("__init__.py", "__main__.py")
GENERATED = "Written by `python "
"""The words in the docstring of a file that a script of tests/support writes."""

Graph = dict[str, set[str]]


class Module(NamedTuple):
    """A file of the package: its path below the root, its text, its syntax tree and all nodes."""

    path: Path
    text: str
    tree: ast.Module
    nodes: list[ast.AST]

    @property
    def name(self) -> str:
        """The dotted name below `rankmesh`; a folder's own for its `__init__`."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def folder(self) -> str:
        """The dotted name of the folder; for a module of the root its own name."""
        return ".".join(self.path.parts[:-1]) or self.path.stem

    @property
    def generated(self) -> bool:
        """Whether a script has written the file."""
        words = ast.get_docstring(self.tree) or ""
        return self.path.name == "mindir_pb2.py" or GENERATED in words


def read(root: Path = ROOT) -> list[Module]:
    """All modules of the package in a checkout or in an extracted archive of one."""
    paths = [path for name in FOLDERS for path in sorted((root / name).rglob("*.py"))]
    found = []
    for path in [*paths, *(root / name for name in ROOT_MODULES)]:
        text = path.read_text()
        tree = ast.parse(text, str(path))
        found.append(Module(path.relative_to(root), text, tree, list(ast.walk(tree))))
    return found


def import_graph(modules: list[Module]) -> Graph:
    """The modules that each module imports, wherever in the file the import stands."""
    known = {one.name for one in modules}
    return {
        one.name: {name for name in _imports(one, known) if name != one.name} for one in modules
    }


def _imports(module: Module, known: set[str]) -> Iterator[str]:
    package = module.path.parts[:-1]
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names if f"{one.name}.".startswith("rankmesh.")]
            yield from (name.partition(".")[2] for name in names)
        elif isinstance(node, ast.ImportFrom):
            if not node.level and not f"{node.module}.".startswith("rankmesh."):
                continue
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = node.module or "" if node.level else f"{node.module}."[len("rankmesh.") :]
            parts = [*base, *filter(None, name.rstrip(".").split("."))]
            for alias in node.names:
                inner = ".".join([*parts, alias.name])
                yield inner if inner in known else ".".join(parts)


def folder_graph(modules: list[Module], files: Graph) -> Graph:
    """The folders that each folder imports; a folder and its inner folders are several nodes."""
    folder = {one.name: one.folder for one in modules}
    found: Graph = {name: set() for name in folder.values()}
    for importer, imported in files.items():
        found[folder[importer]] |= {folder[name] for name in imported if name in folder}
    return {name: others - {name} for name, others in found.items()}


def cycles(graph: Graph) -> list[list[str]]:
    """The sets of nodes that reach each other: strongly connected components of more than one."""
    reach = {node: _reachable(node, graph) for node in graph}
    found = {frozenset(b for b in reach[a] if a in reach[b]) | {a} for a in graph}
    return sorted(sorted(one) for one in found if len(one) > 1)


def _reachable(start: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for node in graph.get(ahead.pop(), ()):
            if node not in found:
                found.add(node)
                ahead.append(node)
    return found
