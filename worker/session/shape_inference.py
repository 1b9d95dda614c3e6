"""Shape inference: output shapes of a plan for given input shapes, without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import onnx
from onnx import ModelProto, ValueInfoProto, helper

from ...comm.arrays import Shape
from ...comm.collective_call import Kind
from ...comm.errors import ModelError
from ...compiler.element_types import dtypes
from ...compiler.element_types.value_types import TensorType
from ...compiler.onnx_graph.collective_types import result_shapes
from ...compiler.onnx_graph.onnx_values import tensor_type, value_info
from ..partition.plan import CollectiveStep, Plan, Segment, Step

_SMALL = 64  # elements: what can hold a shape that others depend on


def output_shapes(plan: Plan, inputs: Sequence[Shape]) -> list[Shape | None]:
    """The shape of each output, -1 where only the data tell; ModelError or InputError where
    `inputs` do not fit.
    """
    types = dict(plan.types)
    for signature, shape in zip(plan.inputs, inputs, strict=True):
        types[signature.value] = TensorType(signature.type.dtype, shape)
    for step in plan.steps:
        types.update(zip(step.outputs, _results(plan.path, step, types), strict=True))
    return [types[signature.value].shape for signature in plan.outputs]


def _results(path: str, step: Step, types: Mapping[str, TensorType]) -> list[TensorType]:
    if isinstance(step, CollectiveStep):
        return _of_exchange(step, types)
    if isinstance(step, Segment):
        return _of_segment(path, step, types)
    return [types[name] for name in step.outputs]  # which way it goes, and how often, is not known


def _of_exchange(step: CollectiveStep, types: Mapping[str, TensorType]) -> list[TensorType]:
    declared = [types[name] for name in step.outputs]
    operands = [types[name].shape for name in step.inputs]
    known = [shape for shape in operands if shape is not None and min(shape, default=0) >= 0]
    if (
        step.call.kind is Kind.RECEIVE
        or len(known) != len(step.outputs)
        or len(known) != len(operands)
        or all(one.known for one in declared)
    ):
        return declared
    return [
        TensorType(types[step.inputs[0]].dtype, shape) for shape in result_shapes(step.call, known)
    ]


def _of_segment(path: str, step: Segment, types: Mapping[str, TensorType]) -> list[TensorType]:
    try:
        inferred = onnx.shape_inference.infer_shapes(
            _probe(step, types), strict_mode=True, data_prop=True
        )
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(f"{path}: the shapes do not fit together: {error}") from error
    found = [tensor_type(info) for info in inferred.graph.output]
    return [kind or types[name] for kind, name in zip(found, step.outputs, strict=True)]


def _probe(step: Segment, types: Mapping[str, TensorType]) -> ModelProto:
    """The segment without its weights' data, its inputs of the given types, its outputs of any
    shape.
    """
    graph = step.model.graph
    small = [tensor for tensor in graph.initializer if prod(tensor.dims) <= _SMALL]
    large = [
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in graph.initializer
        if prod(tensor.dims) > _SMALL
    ]
    outputs = [ValueInfoProto(name=name) for name in step.outputs]
    for info, name in zip(outputs, step.outputs, strict=True):
        info.type.tensor_type.elem_type = dtypes.to_onnx(types[name].dtype)
    probe = helper.make_graph(
        graph.node,
        "probe",
        [*(value_info(name, types[name]) for name in step.inputs), *large],
        outputs,
        initializer=small,
    )
    return helper.make_model(
        probe, opset_imports=step.model.opset_import, ir_version=step.model.ir_version
    )
