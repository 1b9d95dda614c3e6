"""Shapes: the dimensions of all values of a model, computed for a few choices of the open ones.

Node by node, ONNX's own inference computes the types of the outputs from those of the inputs.
Small integer tensors that follow from shapes and constants are computed along the way, so that a
Reshape whose target is computed gets its real shape. See dims.py for the meaning of choices.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, TypeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ....comm.errors import InputError
from .contrib_shapes import ContribNode, contrib_dtype, contrib_shapes, is_contributed
from .dims import Dims
from .source_graph import SourceGraph

_LARGEST = 4096
"""Elements of the largest tensor that is computed along the way."""

_USUAL = {"batch": 1, "seq": 128, "past": 128, "len": 128, "length": 128}
_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}
_ODD = ((2, 3, 5, 7, 11, 13, 17, 19, 23), (3, 29, 31, 37, 41, 43, 47, 53, 59))
"""Sizes of the open dimensions in the further choices."""

Shape = tuple[int, ...]


def source_graph(model: ir.Model, path: str, sizes: Mapping[str, int] | None = None) -> SourceGraph:
    """The graph of a uniform model with its dimensions.

    `sizes` has the usual sizes of open dimensions, by their names. InputError where a name is
    unknown.
    """
    names = open_dimensions(model)
    unknown = sorted(set(sizes or {}) - set(names))
    if unknown:
        raise InputError(
            f"{path}: has no open dimension '{unknown[0]}'; it has {', '.join(names) or 'none'}."
        )
    runs = [_ShapeRun(model, choice) for choice in _choices(names, sizes or {})]
    common = set.intersection(*(set(run.shapes) for run in runs))
    dims: dict[str, Dims] = {}
    for name in common:
        shapes = [run.shapes[name] for run in runs]
        if len({len(shape) for shape in shapes}) == 1:
            dims[name] = tuple(zip(*shapes, strict=True))
    return SourceGraph(model, dims, len(runs), _constants(runs))


def _constants(runs: Sequence[_ShapeRun]) -> dict[str, np.ndarray]:
    """The small tensors that are the same for all choices."""
    first, *others = runs
    return {
        name: value
        for name, value in first.values.items()
        if all(name in run.values and np.array_equal(run.values[name], value) for run in others)
    }


def open_dimensions(model: ir.Model) -> list[str]:
    """The names of the inputs' open dimensions, without those that are sums of others."""
    found: dict[str, None] = {}
    for value in model.graph.inputs:
        for axis, dim in enumerate(value.shape or ()):
            if not isinstance(dim, int):
                name = str(dim.value) if dim.value is not None else f"{value.name}.{axis}"
                for one in _names(name):
                    found[one] = None
    return list(found)


def _names(text: str) -> list[str]:
    """The names in an expression such as `past + sequence`; the text itself, if it is none."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return [text]
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return names if _computed(tree, dict.fromkeys(names, 1)) is not None else [text]


def _computed(tree: ast.AST, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression of names, integers and + - * //; None where it is another."""
    if isinstance(tree, ast.Name):
        return sizes.get(tree.id)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.BinOp) and type(tree.op) in _ARITHMETIC:
        left, right = _computed(tree.left, sizes), _computed(tree.right, sizes)
        if left is not None and right is not None:
            return _ARITHMETIC[type(tree.op)](left, right)
    return None


def size_of(text: str, sizes: Mapping[str, int]) -> int:
    """The size of an open dimension, whose name may be an expression of others."""
    if text in sizes:
        return sizes[text]
    found = _computed(ast.parse(text, mode="eval").body, sizes)
    if found is None:
        raise InputError(f"The dimension '{text}' is no sum or product of {', '.join(sizes)}.")
    return found


def _choices(names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes for all open dimensions: the usual ones, then odd ones that differ from each other."""
    yield {name: sizes.get(name, _usual(name)) for name in names}
    if names:
        for odd in _ODD:
            yield {name: odd[index % len(odd)] for index, name in enumerate(names)}


def _usual(name: str) -> int:
    """A plausible size for a dimension of this name."""
    return next((size for part, size in _USUAL.items() if part in name.lower()), 4)


class _ShapeRun:
    """The shapes of all values, and the small integer tensors, for one choice."""

    def __init__(self, model: ir.Model, sizes: Mapping[str, int]) -> None:
        self.shapes: dict[str, Shape] = {}
        self.values: dict[str, np.ndarray] = {}
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
            return self._declared(node)
        try:
            if is_contributed(node, self._opsets.get("", 1)):
                return self._contributed(node)
            proto = ir.to_proto(node)
            types = self._infer_types(node, proto, known)
        except (
            Exception
        ):  # onnx raises its own InferenceError, and RuntimeError, for what it cannot
            return self._declared(node)
        for value in node.outputs:
            found = types.get(_name(value))
            if found is not None:
                self._take(value, found)
        return self._compute(node, proto, known)

    def _contributed(self, node: ir.Node) -> None:
        one = ContribNode(node, self.shapes, self.values)
        self._declared(node)
        shapes = contrib_shapes(one, self._opsets.get("", 1))
        for index, (value, shape) in enumerate(zip(node.outputs, shapes, strict=False)):
            if shape is not None and _name(value):
                dtype = contrib_dtype(one, index) if value.dtype is None else value.dtype
                if dtype is not None:
                    value.dtype = dtype
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

    def _take(self, value: ir.Value, found: TypeProto) -> None:
        tensor = found.tensor_type
        self._types[_name(value)] = tensor.elem_type
        if tensor.elem_type:
            value.dtype = ir.DataType(tensor.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        if tensor.HasField("shape") and -1 not in sizes:
            self.shapes[_name(value)] = tuple(sizes)
        else:
            self._declared_value(value)

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
            self._keep(node, _evaluated(proto, inputs, self._opsets))

    def _is_small(self, node: ir.Node, names: Sequence[str]) -> bool:
        outputs = [self.shapes.get(_name(value)) for value in node.outputs]
        return all(name in self.values for name in names) and all(
            shape is not None and np.prod(shape, dtype=np.int64) <= _LARGEST for shape in outputs
        )

    def _keep(self, node: ir.Node, values: Sequence[np.ndarray]) -> None:
        for value, found in zip(node.outputs, values, strict=False):
            if found.dtype.kind in "iub" or found.size <= 16:
                self.values[_name(value)] = found
                self.shapes[_name(value)] = found.shape

    def _declared(self, node: ir.Node) -> None:
        for value in node.outputs:
            self._declared_value(value)

    def _declared_value(self, value: ir.Value) -> None:
        """Enter the shape that the file declares, if it is fixed."""
        shape = value.shape
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            self._enter(value, shape.numpy())


_SKIPPED = {"If", "Loop", "Scan", "Dropout"}


def _evaluated(
    proto: onnx.NodeProto, inputs: Mapping[str, np.ndarray], opsets: Mapping[str, int]
) -> Sequence[np.ndarray]:
    """The outputs that the reference implementation of ONNX computes; nothing where it fails."""
    graph = helper.make_graph(
        [proto],
        "node",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in inputs.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in proto.output if n],
    )
    ids = [helper.make_opsetid(name, number) for name, number in opsets.items()]
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(helper.make_model(graph, opset_imports=ids)).run(
                None, dict(inputs)
            )
    except Exception:  # the value then stays unknown, and nothing depends on it
        return []
    return [np.asarray(one) for one in found]


def _input_size(value: ir.Value, axis: int, sizes: Mapping[str, int]) -> int:
    shape = value.shape
    assert shape is not None
    dim = shape[axis]
    if isinstance(dim, int):
        return dim
    return size_of(str(dim.value) if dim.value is not None else f"{value.name}.{axis}", sizes)


def _name(value: ir.Value) -> str:
    assert value.name is not None
    return value.name
