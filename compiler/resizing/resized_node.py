"""Resized node: one node with the shapes of its values as exported, and as asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..source_graph.shape_run import ShapeRun
from ..source_graph.source_graph import operator
from .reshape_axes import Shape


@dataclass(frozen=True, slots=True)
class ResizedNode:
    """A node in two runs of shapes; `constants` are the values that no input decides."""

    node: ir.Node
    exported: ShapeRun
    asked: ShapeRun
    constants: frozenset[str]

    @property
    def operator(self) -> str:
        """The name of its operator, with its domain unless that is ONNX's own."""
        return operator(self.node)

    @property
    def count(self) -> int:
        """The number of its inputs."""
        return len(self.node.inputs)

    @property
    def label(self) -> str:
        """Its name for users, and its operator."""
        return f"node '{self.node.name or self.node.outputs[0].name}' ({self.operator})"

    def name(self, index: int) -> str:
        """The name of an input; "" for one that is missing."""
        value = self.node.inputs[index] if index < self.count else None
        return "" if value is None or value.name is None else value.name

    def before(self, index: int) -> Shape | None:
        """The shape of an input as exported."""
        return self.exported.shapes.get(self.name(index))

    def after(self, index: int) -> Shape | None:
        """The shape of an input as asked for."""
        return self.asked.shapes.get(self.name(index))

    def is_constant(self, index: int) -> bool:
        """Whether no input of the model decides an input."""
        return self.name(index) in self.constants

    def constant(self, index: int) -> np.ndarray | None:
        """The elements of a small constant input; None for all others."""
        known = self.is_constant(index) and self.name(index) in self.asked.values
        return self.asked.values[self.name(index)] if known else None

    def sizes(self, index: int) -> tuple[Shape | None, Shape | None]:
        """The shapes of an input in both runs; those that it has as elements for Expand."""
        if self.operator != "Expand" or index != 1:
            return self.before(index), self.after(index)
        found = [run.values.get(self.name(index)) for run in (self.exported, self.asked)]
        before, after = (None if one is None else tuple(one.tolist()) for one in found)
        return before, after

    def outputs(self) -> Iterator[tuple[str, Shape, Shape]]:
        """The outputs whose shapes are known, as exported and as asked for."""
        for value in self.node.outputs:
            name = str(value.name)
            if name in self.exported.shapes and name in self.asked.shapes:
                yield name, self.exported.shapes[name], self.asked.shapes[name]

    @property
    def unsure(self) -> bool:
        """Whether elements decide a size of one of its values."""
        names = {str(one.name) for one in (*self.node.inputs, *self.node.outputs) if one}
        runs = (self.exported, self.asked)
        return any(not names.isdisjoint(run.unsure.values) for run in runs)

    @property
    def changes(self) -> bool:
        """Whether an input has another shape than as exported, or asks for another."""
        sizes = [self.sizes(index) for index in range(self.count)]
        return any(before != after for before, after in sizes)

    def int_of(self, name: str, default: int) -> int:
        """An integer attribute."""
        return int(self.node.attributes.get_int(name, default))

    def ints(self, name: str) -> tuple[int, ...]:
        """The integers of an attribute; none where it is missing."""
        found = self.node.attributes.get(name)
        return () if found is None else tuple(found.as_ints())
