"""Table of folders: writes what each folder says of itself into docs/architecture.md.

python tests/support/folders.py
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = ("rank_tables", "comm", "compiler", "worker", "orchestrator", "launch")
HEAD = "| folder | holds |\n|---|---|\n"
OTHERS = {
    "examples": "Programs for the tutorials, for PyTorch and for a server, each with its `run.sh`",
    "tests": "Tests: they mirror the folders; `tests/oracle` makes references with MindSpore",
    "bench": "Benchmarks: [performance.md](performance.md) has their figures",
    "docs": "Documents",
}


def purposes() -> dict[str, str]:
    """The first sentence of each folder's `__init__.py`, by folder."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("__init__.py")):
            if "mindspore_lite" not in path.parts:
                docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
                first = " ".join(docstring.split("\n\n")[0].split()).rstrip(".")
                found[path.parent.relative_to(ROOT).as_posix()] = first
    return found


def table() -> str:
    """The table as the page has it."""
    rows = [f"| `{folder}/` | {text} |" for folder, text in {**purposes(), **OTHERS}.items()]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(re.sub(re.escape(HEAD) + r"(\|.*\n)+", lambda _: table(), PAGE.read_text()))
