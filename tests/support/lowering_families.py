"""worker/lowering/builder/families.py, from the lowerings that the families register.

`python tests/support/lowering_families.py` writes it.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "worker" / "lowering" / "builder" / "families.py"
HEAD = '''"""Families: the module that lowers each primitive, known before any of them is imported.

Written by `python tests/support/lowering_families.py` from what they register.
"""

from __future__ import annotations

FAMILIES: dict[str, tuple[str, ...]] = {
'''
TAIL = """}
FAMILY_OF = {
    primitive: family for family, primitives in FAMILIES.items() for primitive in primitives
}
"""


def text() -> str:
    """The whole file, by a process that has no family imported yet."""
    return subprocess.run(
        [sys.executable, __file__, "print"], capture_output=True, text=True, check=True
    ).stdout


def registered() -> dict[str, list[str]]:
    """The primitives that each module of worker/lowering/primitives registers."""
    from rankmesh.worker.lowering.builder import registry

    for path in sorted((TABLE.parents[1] / "primitives").glob("*.py")):
        import_module(f"rankmesh.worker.lowering.primitives.{path.stem}")
    found = defaultdict(list)
    for primitive, module in registry.registered():
        found[module.rpartition(".")[2]].append(primitive)
    return found


def table(families: dict[str, list[str]]) -> str:
    """The file with these families."""
    rows = []
    for family, primitives in sorted(families.items()):
        names = ", ".join(f'"{name}"' for name in sorted(primitives)) + ","
        rows += [
            f'    "{family}": (',
            *wrap(names, 100, initial_indent=" " * 8, subsequent_indent=" " * 8),
            "    ),",
        ]
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    if sys.argv[1:] == ["print"]:
        print(table(registered()), end="")
    else:
        TABLE.write_text(text())
