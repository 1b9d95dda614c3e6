"""Shapes: the dimensions of all values of a model, from its shapes for some open dimensions.

See dims.py for the meaning of choices, and open_dimensions.py for the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ....comm.errors import InputError
from .dims import Dims
from .open_dimensions import (
    Sizes,
    least_sizes,
    odd_sizes,
    open_dimensions,
    size_of,
    sum_of_names,
    usual_sizes,
)
from .shape_run import ShapeRun
from .source_graph import SourceGraph


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
    runs = _runs(model, names, sizes or {})
    common = [name for name in runs[0].shapes if all(name in run.shapes for run in runs)]
    dims: dict[str, Dims] = {}
    for name in common:
        shapes = [run.shapes[name] for run in runs]
        if len({len(shape) for shape in shapes}) == 1:
            dims[name] = tuple(zip(*shapes, strict=True))
    return SourceGraph(model, dims, len(runs), _constants(runs), runs[0].sizes)


def _runs(model: ir.Model, names: Sequence[str], given: Sizes) -> list[ShapeRun]:
    """The shapes for each choice of sizes; those of the usual one first."""
    if not names:
        return [ShapeRun(model, {})]
    odd, sums = _independent(model, names)
    usual = _first_that_fits(model, usual_sizes(names, given), sums)
    return [usual, odd, _first_that_fits(model, least_sizes(names), sums)]


def _independent(model: ir.Model, names: Sequence[str]) -> tuple[ShapeRun, Mapping[str, str]]:
    """The shapes for odd sizes, and the names that turn out to be sums of others.

    An export may name the length of a mask by itself, though it must be that of the past and of
    the sequence together. With sizes of its own, an operator then gets shapes that do not fit.
    """
    sums: dict[str, str] = {}
    while True:
        run = _first_that_fits(model, odd_sizes(names), sums)
        clash = run.clash() if run.failed else None
        found = None if clash is None else sum_of_names(*clash, run.sizes)
        if found is None or found[0] in sums:
            return run, sums
        sums[found[0]] = found[1]


def _first_that_fits(
    model: ir.Model, attempts: Iterator[Sizes], sums: Mapping[str, str]
) -> ShapeRun:
    """The shapes for the first sizes that fit; of all attempts those with the fewest failures."""
    best: ShapeRun | None = None
    for sizes in attempts:
        whole = {**sizes, **{name: size_of(text, sizes) for name, text in sums.items()}}
        run = ShapeRun(model, whole)
        if best is None or len(run.failed) < len(best.failed):
            best = run
        if not run.failed:
            break
    assert best is not None
    return best


def _constants(runs: Sequence[ShapeRun]) -> dict[str, np.ndarray]:
    """The small tensors that are the same for all choices."""
    first, *others = runs
    return {
        name: value
        for name, value in first.values.items()
        if all(name in run.values and np.array_equal(run.values[name], value) for run in others)
    }
<<<<<<< HEAD


class _ShapeRun:
    """The shapes of all values, and the small integer tensors, for one choice."""

    def __init__(self, model: ir.Model, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
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
        if node.op_type in _COMPOSED:
            return self._compared(node)
        try:
            if is_contributed(node, self._opsets.get("", 1)):
                return self._contributed(node)
            proto = ir.to_proto(node)
            types = self._infer_types(node, proto, known)
        except Exception:  # onnx raises InferenceError, and RuntimeError, for others than these
            return self._declared(node)
        for value in node.outputs:
            found = types.get(_name(value))
            if found is not None:
                self._take(value, found)
        return self._compute(node, proto, known)

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


_COMPOSED = {"GreaterOrEqual", "LessOrEqual"}
"""Operators that are functions of others before opset 16."""

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
=======
>>>>>>> 0b0e616 (Slicing: open dimensions that are sums of others, sizes that fit, shapes of If and Loop)
