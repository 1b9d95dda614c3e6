"""Slicing under test: every strategy of one node, and fuzzed plans of whole models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from rankmesh.compiler.model_file.loaded_model import LoadedModel
from rankmesh.compiler.right_sizes.shapes import source_graph
from rankmesh.compiler.slicing.emission.conversions import convertible
from rankmesh.compiler.slicing.emission.trial import relative_error, run_in_lockstep, run_model
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import WHOLE
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.source_graph.dims import usual
from rankmesh.compiler.source_graph.source_graph import SourceGraph, source_model

Arrays = Mapping[str, np.ndarray]
TOLERANCE = 1e-5
"""Largest difference to largest value, for float32."""


def graph_of(model: onnx.ModelProto, path: str = "model.onnx") -> SourceGraph:
    """The source graph of a model that is in memory."""
    return source_graph(source_model(LoadedModel(model, path)), path)


def one_node(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    weights: Sequence[int] = (),
    outputs: int = 1,
    domain: str = "",
    opset: int = 21,
    open_axes: Mapping[int, Sequence[int]] | None = None,
    **attributes: object,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and its inputs.

    `weights` are the positions of inputs that are initializers, `open_axes` the axes of the others
    that are open dimensions.
    """
    names = [f"x{index}" if array is not None else "" for index, array in enumerate(inputs)]
    node = helper.make_node(
        operator, names, [f"y{i}" for i in range(outputs)], name="node", domain=domain, **attributes
    )
    feeds, infos, initializers = {}, [], []
    for index, array in enumerate(inputs):
        if array is None:
            continue
        if index in weights:
            initializers.append(numpy_helper.from_array(array, names[index]))
            continue
        feeds[names[index]] = array
        shape: list[int | str] = list(array.shape)
        for axis in (open_axes or {}).get(index, ()):
            shape[axis] = f"open{shape[axis]}"
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        infos.append(helper.make_tensor_value_info(names[index], kind, shape))
    results = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)]
    graph = helper.make_graph([node], "one", infos, results, initializers)
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    if not domain:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return model, feeds


def check_strategies(
    model: onnx.ModelProto, feeds: Arrays, ranks: Sequence[int] = (2, 3), least: int = 1
) -> None:
    """Run every strategy of every node of a model, all else whole, and compare.

    At least `least` strategies must split something, for each number of ranks. By two and three
    ranks, dimensions are split in equal and in unequal parts; four matter where heads are shared.
    """
    graph = graph_of(model)
    expected = run_model(graph.model.clone(), feeds)
    for value, array in zip(graph.model.graph.outputs, expected, strict=True):
        dims = graph.dims.get(str(value.name))
        if dims is not None and graph.choices == 1:
            assert usual(dims) == array.shape, f"{value.name}: {dims}"
    for count in ranks:
        tried = 0
        for name, strategies in propagate(graph, count).strategies.items():
            for strategy in strategies:
                if not _reachable(graph, name, strategy):
                    continue
                tried += any(one != WHOLE for one in (*strategy.inputs, *strategy.outputs))
                check_plan(graph, SlicePlan(count, {name: strategy}), feeds, expected)
        assert tried >= least, f"{count} ranks: {tried} strategies split something"


def _reachable(graph: SourceGraph, name: str, strategy: Strategy) -> bool:
    """Whether whole inputs can be converted to what the strategy needs, and its outputs back."""
    node = next(one for one in graph.nodes if one.name == name)
    return all(
        value is None or value.is_initializer() or one == WHOLE or convertible(WHOLE, one)
        for value, one in zip(node.inputs, strategy.inputs, strict=True)
    )


def check_plan(
    graph: SourceGraph, plan: SlicePlan, feeds: Arrays, expected: Sequence[np.ndarray]
) -> None:
    """Run a plan in lockstep; every rank must give what the whole model gives."""
    for rank, got in enumerate(run_in_lockstep(graph, plan, feeds)):
        error = relative_error(got, expected)
        shown = {
            name: ([str(p) for p in one.inputs], [str(p) for p in one.outputs])
            for name, one in plan.strategies.items()
        }
        assert error <= TOLERANCE, f"rank {rank} of {plan.ranks}: error {error}: {shown}"


def random_inputs(model: ir.Model, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
    """Random inputs for a model whose open dimensions have these sizes."""
    draw = np.random.default_rng(seed)
    found = {}
    for value in model.graph.inputs:
        shape = [
            dim if isinstance(dim, int) else sizes[str(dim.value)] for dim in value.shape or ()
        ]
        assert value.dtype is not None
        kind = value.dtype.numpy()
        array = draw.standard_normal(shape) if kind.kind == "f" else draw.integers(0, 8, shape)
        found[str(value.name)] = array.astype(kind)
    return found
