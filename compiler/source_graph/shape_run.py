"""Shape runs: the shapes of all values of a model, for one size of each open dimension.

Node by node, ONNX's own inference computes the types of the outputs from those of the inputs.
Small integer tensors that follow from shapes and constants are computed along the way, so that a
Reshape whose target is computed gets its real shape. Bodies of If and Loop are gone through, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TypeProto, helper, numpy_helper

from ..onnx_graph.constant_folding import RANDOM
from .body_shapes import BODIES, inherit, name_of
from .contrib_node import ContribNode
from .contrib_shapes import contrib_dtype, contrib_shapes, is_contributed
from .misfits import lacks_elements, lacks_rows
from .node_value import evaluated
from .open_dimensions import dimension_name, expression, size_of
from .unsure_sizes import UnsureSizes

Shape = tuple[int, ...]

_LARGEST = 4096
"""Elements of the largest tensor that is computed along the way."""
_SKIPPED = {"Scan", "Dropout"} | RANDOM
_WRITING = {"ScatterND", "ScatterElements"}
"""Operators whose output has the shape of the first input, whatever the others are."""

_COMPOSED = {"GreaterOrEqual", "LessOrEqual"}
"""Operators that are functions of others before opset 16."""


class ShapeRun:
    """The shapes of all values, and the small integer tensors, for one choice.

    `failed` has the nodes whose inputs have shapes that do not fit together. `number` is that of
    the run; see unsure_sizes.py.
    """

    def __init__(self, model: ir.Model, sizes: Mapping[str, int], number: int = 0) -> None:
        self.sizes = sizes
        self.shapes: dict[str, Shape] = {}
        self.values: dict[str, np.ndarray] = {}
        self.failed: list[ir.Node] = []
        self.unsure = UnsureSizes(number)
        self._types: dict[str, int] = {}
        self._opsets = dict(model.opset_imports)
        for value in model.graph.inputs:
            shape = [_input_size(value, axis, sizes) for axis in range(len(value.shape or ()))]
            self.enter(value, shape)
        for value in model.graph.initializers.values():
            tensor = value.const_value
            if tensor is not None:
                self.enter(value, tensor.shape.numpy())
                counts = tensor.dtype.is_integer() and tensor.dtype.itemsize > 1
                if tensor.size <= _LARGEST and counts or tensor.size <= 16:
                    self.values[name_of(value)] = np.array(tensor.numpy())
        for node in model.graph:
            self.infer(node)

    def enter(self, value: ir.Value, shape: Sequence[int]) -> None:
        """Enter the shape of a value, and its type."""
        self.shapes[name_of(value)] = tuple(int(size) for size in shape)
        if value.dtype is not None:
            self._types[name_of(value)] = int(value.dtype)

    def infer(self, node: ir.Node) -> None:
        """Enter the shapes of a node's outputs, and their values where they are small integers."""
        known = [value for value in node.inputs if value is not None]
        if any(name_of(value) not in self.shapes for value in known):
            return self._written(node) if node.op_type in _WRITING else self._declare(node)
        bodies = BODIES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if bodies is not None:
            return bodies(self, node)
        try:
            if node.op_type in _COMPOSED:
                return self._compared(node)
            if self.unsure.splits(node, self.values):
                return self._parted(node)
            if is_contributed(node, self._opsets.get("", 1)):
                return self._contributed(node)
            proto = ir.to_proto(node)
            types = self._infer_types(node, proto, known)
        except (onnx.shape_inference.InferenceError, ValueError):
            self.failed += [] if self.unsure.touch(node) else [node]
            return self._declare(node)
        except Exception:  # an operator without a schema, or types that onnx does not know
            return self._declare(node)
        for value in node.outputs:
            found = types.get(name_of(value))
            if found is not None:
                self._take(value, found, self.unsure.touch(node))
        misfit = lacks_elements(types.values()) or lacks_rows(node, self.shapes, self.values)
        if misfit and not self.unsure.touch(node):
            self.failed.append(node)
        return self._compute(node, proto, known)

    def _parted(self, node: ir.Node) -> None:
        """Enter the shapes of the outputs of a Split of or into unsure sizes."""
        data = node.inputs[0]
        assert data is not None
        shapes = self.unsure.parts(node, self.shapes[name_of(data)], self.values)
        for value, shape in zip(node.outputs, shapes, strict=True):
            inherit(value, data)
            self.enter(value, shape)

    def _written(self, node: ir.Node) -> None:
        """Enter the shape of data into which something of an unknown shape is written."""
        (output,), data = node.outputs, node.inputs[0]
        if data is None or name_of(data) not in self.shapes:
            return self._declare(node)
        inherit(output, data)
        return self.enter(output, self.shapes[name_of(data)])

    def _compared(self, node: ir.Node) -> None:
        """Enter the shape of a comparison, of which older opsets have no inference."""
        shapes = [self.shapes[name_of(value)] for value in node.inputs if value is not None]
        (output,) = node.outputs
        output.dtype = ir.DataType.BOOL
        self.enter(output, np.broadcast_shapes(*shapes))
        self._compute(node, ir.to_proto(node), [v for v in node.inputs if v is not None])

    def _contributed(self, node: ir.Node) -> None:
        one = ContribNode(node, self.shapes, self.values)
        self._declare(node)
        shapes = contrib_shapes(one, self._opsets.get("", 1))
        for index, (value, shape) in enumerate(zip(node.outputs, shapes, strict=False)):
            dtype = contrib_dtype(one, index) if value.dtype is None else None
            if dtype is not None:
                value.dtype = dtype
            if shape is not None and name_of(value):
                self.enter(value, shape)

    def _infer_types(
        self, node: ir.Node, proto: onnx.NodeProto, known: Sequence[ir.Value]
    ) -> Mapping[str, TypeProto]:
        schema = onnx.defs.get_schema(
            node.op_type, self._opsets[node.domain], "" if node.domain == "ai.onnx" else node.domain
        )
        types = {
            name_of(v): helper.make_tensor_type_proto(
                self._types[name_of(v)], self.shapes[name_of(v)]
            )
            for v in known
        }
        data = {
            name_of(v): numpy_helper.from_array(self.values[name_of(v)], name_of(v))
            for v in known
            if name_of(v) in self.values
        }
        opsets = [helper.make_opsetid(name, number) for name, number in self._opsets.items()]
        found: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=opsets
        )
        return found

    def _take(self, value: ir.Value, found: TypeProto, unsure: bool) -> None:
        tensor = found.tensor_type
        self._types[name_of(value)] = tensor.elem_type
        if tensor.elem_type:
            value.dtype = ir.DataType(tensor.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        if not tensor.HasField("shape") or -1 in sizes and _fits(value, sizes):
            self.declare(value)
        if tensor.HasField("shape") and name_of(value) not in self.shapes:
            self.shapes[name_of(value)] = self.unsure.shape(sizes)
            if unsure or -1 in sizes:
                self.unsure.values.add(name_of(value))

    def _compute(self, node: ir.Node, proto: onnx.NodeProto, known: Sequence[ir.Value]) -> None:
        """Enter the values of outputs that follow from shapes and small integers."""
        names = [name_of(value) for value in known]
        if node.op_type == "Shape":
            start, end = node.attributes.get("start"), node.attributes.get("end")
            taken = slice(start.as_int() if start else 0, end.as_int() if end else None)
            self._keep(node, [np.array(self.shapes[names[0]][taken], np.int64)])
        elif node.op_type == "Size":
            self._keep(node, [np.array(np.prod(self.shapes[names[0]]), np.int64)])
        elif node.op_type not in _SKIPPED and self._is_small(node, names):
            inputs = {name: self.values[name] for name in names}
            self._keep(node, evaluated(proto, inputs, self._opsets))

    def _is_small(self, node: ir.Node, names: Sequence[str]) -> bool:
        outputs = [self.shapes.get(name_of(value)) for value in node.outputs]
        if node.op_type == "NonZero":  # at most a place for each element and axis
            shape = self.shapes[names[0]]
            outputs = [(len(shape), int(np.prod(shape, dtype=np.int64)))]
        return all(name in self.values for name in names) and all(
            shape is not None and np.prod(shape, dtype=np.int64) <= _LARGEST for shape in outputs
        )

    def _keep(self, node: ir.Node, values: Sequence[np.ndarray]) -> None:
        for value, found in zip(node.outputs, values, strict=False):
            if found.dtype.kind in "iub" or found.size <= 16:
                self.values[name_of(value)] = found
                self.shapes[name_of(value)] = found.shape
                if self.unsure.touch(node):
                    self.unsure.values.add(name_of(value))

    def _declare(self, node: ir.Node) -> None:
        for value in node.outputs:
            self.declare(value)

    def declare(self, value: ir.Value) -> None:
        """Enter the shape that the file declares, if its sizes are known."""
        if value.shape is not None:
            sizes = [expression(str(getattr(dim, "value", dim)), self.sizes) for dim in value.shape]
            known = [size for size in sizes if size is not None]
            if len(known) == len(sizes):
                self.enter(value, known)


def _fits(value: ir.Value, sizes: Sequence[int]) -> bool:
    """Whether a declared shape agrees with sizes that are known, of which -1 is unknown."""
    if value.shape is None or len(value.shape) != len(sizes):
        return False
    pairs = zip(value.shape, sizes, strict=True)
    return all(own == size or -1 == size or not isinstance(own, int) for own, size in pairs)


def _input_size(value: ir.Value, axis: int, sizes: Mapping[str, int]) -> int:
    shape = value.shape
    assert shape is not None
    dim = shape[axis]
    if isinstance(dim, int):
        return dim
    return size_of(dimension_name(value, axis), sizes)
