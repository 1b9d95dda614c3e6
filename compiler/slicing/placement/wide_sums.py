"""Wide sums: terms of a sum of float16 are float32, as each may be larger than the sum is.

float16 ends at 65,504. One device adds all products of a row in float32, and rounds what comes
out. Terms that ranks rounded first would be infinite where they are larger, and less exact where
they cancel out.
"""

from __future__ import annotations

import onnx_ir as ir

from .placements import SUM, Placement

_LOOKUPS = {"Gather", "GatherBlockQuantized"}
"""Operators whose rows of a table only one rank has: the others add zeros, which is exact."""

_CARRIERS = {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose"}
_CARRIERS |= {"Unsqueeze"}

NARROW, WIDE = ir.DataType.FLOAT16, ir.DataType.FLOAT


def held_dtype(value: ir.Value, placement: Placement) -> ir.DataType | None:
    """The dtype in which ranks hold a value of the whole model in a placement."""
    if placement == SUM and value.dtype == NARROW and not adds_zeros(value):
        return WIDE
    return value.dtype


def adds_zeros(value: ir.Value) -> bool:
    """Whether all ranks but one hold zeros for each element, where the value is a sum."""
    node = value.producer()
    while node is not None and node.op_type in _CARRIERS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type not in _LOOKUPS:
        return False
    table = node.inputs[0]
    return table is not None and table.is_initializer()
