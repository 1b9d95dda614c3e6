"""Contributed node: one whose operator ONNX has no schema of, and what its inputs are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContribNode:
    """A node, the shapes of its inputs, and their values where they are small constants."""

    node: ir.Node
    shapes: Mapping[str, Shape]
    values: Mapping[str, np.ndarray]

    def name(self, index: int) -> str:
        """The name of an input; empty for one that is missing."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        return "" if value is None or value.name is None else value.name

    def shape(self, index: int) -> Shape | None:
        """The shape of an input; None for one that is missing."""
        return self.shapes.get(self.name(index))

    def int_of(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        found = self.node.attributes.get(name)
        return default if found is None else found.as_int()
