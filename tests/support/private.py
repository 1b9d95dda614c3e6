"""Private reaches: places where a test uses a name with an underscore that is not its own.

python tests/support/private.py    print each place
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTED = {"_asdict", "_current_frames", "_exit", "_fields", "_getframe", "_make", "_replace"}
"""Names with an underscore that the standard library documents."""


def reaches(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of one file, with the private names that they reach for."""
    tree = ast.parse(path.read_text())
    own = DOCUMENTED | set(_own_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            if not _is_own(node.value):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rankmesh"):
            yield from ((node.lineno, one.name) for one in node.names if _is_private(one.name))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            texts = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
            yield from ((node.lineno, one) for one in texts if _is_private(one.split(".")[-1]))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _own_names(tree: ast.Module) -> Iterator[str]:
    """The names that the file defines itself, or sets on self."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and _is_own(node.value):
            yield node.attr


def all_reaches() -> list[str]:
    """Every place in tests/, as `path:line name`."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = ((path, *place) for path in files for place in reaches(path))
    return [f"{path.relative_to(ROOT)}:{line} {name}" for path, line, name in found]


if __name__ == "__main__":
    print("\n".join(all_reaches()))
