"""Families are imported on demand, by a table that cannot go stale."""

from __future__ import annotations

import subprocess
import sys

from lowering_families import LITE_TABLE, TABLE, text

SHARD = """
import sys
from rankmesh.compiler.lowering.builder.registry import is_supported, lowering_of
from rankmesh.compiler.lowering.builder.families import FAMILIES
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
loaded = lambda: sorted(name for name in FAMILIES if f"rankmesh.compiler.lowering.primitives.{name}" in sys.modules)
print(loaded())
print(all(map(is_supported, ('Conv2D', 'Depend', 'MakeTuple', 'Softmax'))), is_supported('Nonsense'), loaded())
print(lowering_of('Conv2D').primitive, lowering_of('Depend').primitive, loaded())
"""  # noqa: E501


def test_the_table_says_what_the_families_register() -> None:
    assert TABLE.read_text() == text(), "run: python tests/support/lowering_families.py"
    assert LITE_TABLE.read_text() == text("lite")


def test_a_family_is_imported_when_one_of_its_primitives_is_lowered_and_not_before() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHARD], capture_output=True, text=True, timeout=250
    )
    assert done.stdout.splitlines() == [
        "[]",
        "True False []",
        "Conv2D Depend ['conv', 'conv_transpose', 'passthrough']",
    ], done.stderr
