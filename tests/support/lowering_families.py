"""compiler/lowering/builder/families.py and lite_families.py, from what the families register.

`python tests/support/lowering_families.py` writes them.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "compiler" / "lowering" / "builder" / "families.py"
HEAD = '''"""Families: the module that lowers each primitive, known before any of them is imported.

Written by `python tests/support/lowering_families.py` from what they register.
"""

from __future__ import annotations

FAMILIES: dict[str, tuple[str, ...]] = {
'''
LITE_TABLE = TABLE.with_name("lite_families.py")
LITE_HEAD = '''"""Families of .ms primitives: the module lowering each, known before it is imported.

Written by `python tests/support/lowering_families.py` from what they register.
"""

from __future__ import annotations

LITE_FAMILIES: dict[str, tuple[str, ...]] = {
'''
TAIL = """}
FAMILY_OF = {
    primitive: family for family, primitives in FAMILIES.items() for primitive in primitives
}
"""


def text(folder: str = "primitives") -> str:
    """A whole file, by a process that has no family imported yet."""
    return subprocess.run(
        [sys.executable, __file__, "print", folder], capture_output=True, text=True, check=True
    ).stdout


def registered(folder: str) -> dict[str, list[str]]:
    """The primitives that each module of a folder of compiler/lowering registers."""
    from rankmesh.compiler.lowering.builder import registry

    for path in sorted((TABLE.parents[1] / folder).glob("*.py")):
        import_module(f"rankmesh.compiler.lowering.{folder}.{path.stem}")
    found = defaultdict(list)
    for primitive, module in registry.registered():
        *_, home, family = module.split(".")
        if home == folder:
            found[family].append(primitive)
    return found


def table(folder: str) -> str:
    """The file of the families of a folder."""
    families = registered(folder)
    rows = []
    for family, primitives in sorted(families.items()):
        names = ", ".join(f'"{name}"' for name in sorted(primitives)) + ","
        rows += [
            f'    "{family}": (',
            *wrap(names, 100, initial_indent=" " * 8, subsequent_indent=" " * 8),
            "    ),",
        ]
    body = "\n".join(rows) + "\n" + TAIL
    if folder == "lite":
        return LITE_HEAD + body.replace("FAMIL", "LITE_FAMIL")
    return HEAD + body


if __name__ == "__main__":
    if sys.argv[1:2] == ["print"]:
        print(table(sys.argv[2]), end="")
    else:
        TABLE.write_text(text())
        LITE_TABLE.write_text(text("lite"))
