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
            self._enter(value, shape)
        for value in model.graph.initializers.values():
            tensor = value.const_value
            if tensor is not None:
                self._enter(value, tensor.shape.numpy())
                counts = tensor.dtype.is_integer() and tensor.dtype.itemsize > 1
                if tensor.size <= _LARGEST and counts or tensor.size <= 16:
                    self.values[_name(value)] = np.array(tensor.numpy())
        for node in model.graph:
            self._infer(node)

    def _enter(self, value: ir.Value, shape: Sequence[int]) -> None:
        self.shapes[_name(value)] = tuple(int(size) for size in shape)
        if value.dtype is not None:
            self._types[_name(value)] = int(value.dtype)

    def _infer(self, node: ir.Node) -> None:
        """Enter the shapes of a node's outputs, and their values where they are small integers."""
        known = [value for value in node.inputs if value is not None]
        if any(_name(value) not in self.shapes for value in known):
            return self._written(node) if node.op_type in _WRITING else self._declared(node)
        bodies = _BODIES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
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
            return self._declared(node)
        except Exception:  # an operator without a schema, or types that onnx does not know
            return self._declared(node)
        for value in node.outputs:
            found = types.get(_name(value))
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
        shapes = self.unsure.parts(node, self.shapes[_name(data)], self.values)
        for value, shape in zip(node.outputs, shapes, strict=True):
            _inherit(value, data)
            self._enter(value, shape)

    def _written(self, node: ir.Node) -> None:
        """Enter the shape of data into which something of an unknown shape is written."""
        (output,), data = node.outputs, node.inputs[0]
        if data is None or _name(data) not in self.shapes:
            return self._declared(node)
        _inherit(output, data)
        return self._enter(output, self.shapes[_name(data)])

    def _compared(self, node: ir.Node) -> None:
        """Enter the shape of a comparison, of which older opsets have no inference."""
        shapes = [self.shapes[_name(value)] for value in node.inputs if value is not None]
        (output,) = node.outputs
        output.dtype = ir.DataType.BOOL
        self._enter(output, np.broadcast_shapes(*shapes))
        self._compute(node, ir.to_proto(node), [v for v in node.inputs if v is not None])

    def _contributed(self, node: ir.Node) -> None:
        one = ContribNode(node, self.shapes, self.values)
        self._declared(node)
        shapes = contrib_shapes(one, self._opsets.get("", 1))
        for index, (value, shape) in enumerate(zip(node.outputs, shapes, strict=False)):
            dtype = contrib_dtype(one, index) if value.dtype is None else None
            if dtype is not None:
                value.dtype = dtype
            if shape is not None and _name(value):
                self._enter(value, shape)

    def _infer_types(
        self, node: ir.Node, proto: onnx.NodeProto, known: Sequence[ir.Value]
    ) -> Mapping[str, TypeProto]:
        schema = onnx.defs.get_schema(
            node.op_type, self._opsets[node.domain], "" if node.domain == "ai.onnx" else node.domain
        )
        types = {
            _name(v): helper.make_tensor_type_proto(self._types[_name(v)], self.shapes[_name(v)])
            for v in known
        }
        data = {
            _name(v): numpy_helper.from_array(self.values[_name(v)], _name(v))
            for v in known
            if _name(v) in self.values
        }
        opsets = [helper.make_opsetid(name, number) for name, number in self._opsets.items()]
        found: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=opsets
        )
        return found

    def _take(self, value: ir.Value, found: TypeProto, unsure: bool) -> None:
        tensor = found.tensor_type
        self._types[_name(value)] = tensor.elem_type
        if tensor.elem_type:
            value.dtype = ir.DataType(tensor.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        if not tensor.HasField("shape") or unsure or -1 in sizes:
            self._declared_value(value)
        if tensor.HasField("shape") and _name(value) not in self.shapes:
            self.shapes[_name(value)] = self.unsure.shape(sizes)
            if unsure or -1 in sizes:
                self.unsure.values.add(_name(value))

    def _compute(self, node: ir.Node, proto: onnx.NodeProto, known: Sequence[ir.Value]) -> None:
        """Enter the values of outputs that follow from shapes and small integers."""
        names = [_name(value) for value in known]
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
        outputs = [self.shapes.get(_name(value)) for value in node.outputs]
        if node.op_type == "NonZero":  # at most a place for each element and axis
            shape = self.shapes[names[0]]
            outputs = [(len(shape), int(np.prod(shape, dtype=np.int64)))]
        return all(name in self.values for name in names) and all(
            shape is not None and np.prod(shape, dtype=np.int64) <= _LARGEST for shape in outputs
        )

    def _keep(self, node: ir.Node, values: Sequence[np.ndarray]) -> None:
        for value, found in zip(node.outputs, values, strict=False):
            if found.dtype.kind in "iub" or found.size <= 16:
                self.values[_name(value)] = found
                self.shapes[_name(value)] = found.shape
                if self.unsure.touch(node):
                    self.unsure.values.add(_name(value))

    def _declared(self, node: ir.Node) -> None:
        for value in node.outputs:
            self._declared_value(value)

    def _declared_value(self, value: ir.Value) -> None:
        """Enter the shape that the file declares, if its sizes are known."""
        if value.shape is not None:
            sizes = [expression(str(getattr(dim, "value", dim)), self.sizes) for dim in value.shape]
            known = [size for size in sizes if size is not None]
            if len(known) == len(sizes):
                self._enter(value, known)

    def branches(self, node: ir.Node) -> None:
        """Enter what both branches of an If have, or the one that the condition picks."""
        graphs = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        failed = list(self.failed)
        for graph in graphs:
            for inner in graph:
                self._infer(inner)
        self.failed = failed  # the branch that is not taken may not fit
        condition = self.values.get(_name(node.inputs[0])) if node.inputs[0] is not None else None
        if condition is not None:
            graphs = [graphs[0 if condition.all() else 1]]
        for index, value in enumerate(node.outputs):
            results = [graph.outputs[index] for graph in graphs]
            shapes = {self.shapes.get(_name(result)) for result in results}
            _inherit(value, results[0])
            self._enter_same(value, shapes)
            if len(results) == 1 and _name(results[0]) in self.values:
                self.values[_name(value)] = self.values[_name(results[0])]

    def _enter_same(self, value: ir.Value, shapes: set[Shape | None]) -> None:
        """Enter the shape, where there is just one and it is known."""
        (first, *others) = shapes
        if first is not None and not others:
            self._enter(value, first)
        else:
            self._declared_value(value)

    def loop(self, node: ir.Node) -> None:
        """Enter the shapes of the values that a Loop carries, where no round changes them."""
        body = node.attributes["body"].as_graph()
        states = node.inputs[2:]
        for value, shape in zip(body.inputs[:2], ((), ()), strict=True):
            self._enter(value, shape)
        for value, outer in zip(body.inputs[2:], states, strict=True):
            if outer is not None:
                _inherit(value, outer)
                self._enter(value, self.shapes[_name(outer)])
        for inner in body:
            self._infer(inner)
        changed = self._changed(body.inputs[2:], body.outputs[1:])
        for index, value in enumerate(node.outputs):
            if index < len(states) and not changed:
                _inherit(value, body.outputs[index + 1])
                self._enter(value, self.shapes[_name(body.inputs[index + 2])])
            else:
                self._declared_value(value)
        if changed:
            self._forget(body)

    def _changed(self, before: Sequence[ir.Value], after: Sequence[ir.Value]) -> bool:
        """Whether a round changes the shape of a value, or makes it unknown."""
        pairs = zip(before, after, strict=False)
        return any(self.shapes.get(_name(a)) != self.shapes.get(_name(b)) for a, b in pairs)

    def _forget(self, body: ir.Graph) -> None:
        """Take back what was computed for the first round alone."""
        names = [_name(value) for value in body.inputs]
        names += [_name(value) for inner in body.all_nodes() for value in inner.outputs]
        for name in names:
            self.shapes.pop(name, None)
            self.values.pop(name, None)


_BODIES = {"If": ShapeRun.branches, "Loop": ShapeRun.loop}


def _input_size(value: ir.Value, axis: int, sizes: Mapping[str, int]) -> int:
    shape = value.shape
    assert shape is not None
    dim = shape[axis]
    if isinstance(dim, int):
        return dim
    return size_of(dimension_name(value, axis), sizes)


def _inherit(value: ir.Value, other: ir.Value) -> None:
    """Give a value without a dtype that of another."""
    if value.dtype is None and other.dtype is not None:
        value.dtype = other.dtype


def _name(value: ir.Value) -> str:
    assert value.name is not None
    return value.name
