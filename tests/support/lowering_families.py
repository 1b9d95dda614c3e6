"""worker/lowering/families.py, written from what the families register. `python tests/support/lowering_families.py`."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "worker" / "lowering" / "families.py"
HEAD = '''"""Which family lowers which primitive, known before any family is imported.

Written by `python tests/support/lowering_families.py` from what the families register; a test compares.
"""

from __future__ import annotations

FAMILIES: dict[str, tuple[str, ...]] = {
'''
TAIL = '''}
FAMILY_OF = {primitive: family for family, primitives in FAMILIES.items() for primitive in primitives}
'''


def text() -> str:
    """The whole file, by a process that has no family imported yet."""
    return subprocess.run([sys.executable, __file__, "print"], capture_output=True, text=True, check=True).stdout


def registered() -> dict[str, list[str]]:
    """The primitives that each module of worker/lowering registers when it is imported."""
    from rankmesh.worker.lowering import registry

    found, lowers = defaultdict(list), registry.lowers

    def noting(*primitives: str) -> Callable[[registry.Lower], registry.Lower]:
        family = sys._getframe(1).f_globals["__name__"].rpartition(".")[2]
        found[family].extend(primitives)
        return lowers(*primitives)

    registry.lowers = noting
    for path in sorted(TABLE.parent.glob("*.py")):
        import_module(f"rankmesh.worker.lowering.{path.stem}")
    return found


def table(families: dict[str, list[str]]) -> str:
    """The file that says so."""
    rows = []
    for family, primitives in sorted(families.items()):
        names = ", ".join(f'"{name}"' for name in sorted(primitives)) + ","
        rows += [f'    "{family}": (', *wrap(names, 120, initial_indent=" " * 8, subsequent_indent=" " * 8), "    ),"]
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    if sys.argv[1:] == ["print"]:
        print(table(registered()), end="")
    else:
        TABLE.write_text(text())
