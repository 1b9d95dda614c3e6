"""Misfits: tell that a node cannot run with the sizes that were chosen for open dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir
from onnx import TypeProto


def lacks_elements(types: Iterable[TypeProto]) -> bool:
    """Whether a size is less than 0: a kernel that is longer than its input leaves that."""
    return any(dim.dim_value < 0 for one in types for dim in one.tensor_type.shape.dim)


def lacks_rows(
    node: ir.Node, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, np.ndarray]
) -> bool:
    """Whether a Gather takes rows that its table lacks: more positions than a model has."""
    if node.op_type != "Gather":
        return False
    table, rows = (str(value.name) for value in node.inputs if value is not None)
    size = shapes[table][node.attributes.get_int("axis", 0)]
    return rows in values and bool(((values[rows] < -size) | (values[rows] >= size)).any())
