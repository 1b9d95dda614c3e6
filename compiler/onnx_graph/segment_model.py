"""Segment models: ONNX models of stretches of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ...comm.errors import ModelError
from ..element_types.value_types import TensorType
from .collective_nodes import DOMAIN
from .onnx_values import tensor_type, value_info
from .value_kinds import ValueKinds, refusal


def segment_model(
    whole: ModelProto,
    nodes: Sequence[NodeProto],
    inputs: Sequence[tuple[str, TensorType]],
    outputs: Sequence[str],
    initializers: Sequence[TensorProto],
    types: dict[str, TensorType],
    path: str,
) -> ModelProto:
    """Some nodes of `whole` as a model of their own; adds unknown types and shapes of `outputs` to
    `types`.

    Raises ModelError where these types cannot be inferred.
    """
    graph = helper.make_graph(
        nodes, "segment", [value_info(*one) for one in inputs], [], initializer=initializers
    )
    model = helper.make_model(
        graph,
        ir_version=whole.ir_version,
        producer_name="rankmesh",
        opset_imports=[opset for opset in whole.opset_import if opset.domain != DOMAIN],
    )
    unsure = [name for name in outputs if name not in types or types[name].shape is None]
    declared = types.keys() >= set(outputs)
    with suppress(ModelError) if declared else nullcontext():  # a shape need not be known
        found = _inferred(model, unsure, path) if unsure else {}
        types.update(
            (name, kind)
            for name, kind in found.items()
            if name not in types or types[name].dtype == kind.dtype
        )
    missing = [name for name in outputs if name not in types]
    if missing:
        raise unknown_type(whole, missing[0], path)
    model.graph.output.extend(value_info(name, types[name]) for name in outputs)
    return model


def unknown_type(whole: ModelProto, name: str, path: str) -> ModelError:
    """The error for a value of `whole` whose type is unknown, or one that ranks do not take."""
    kind = ValueKinds(whole).of(name)
    if kind:
        return refusal(path, f"value '{name}'", kind)
    return ModelError(
        f"{path}: the type of the value '{name}' is not declared and cannot be inferred "
        "(add it to the graph's value_info), or is not a tensor of numbers or bools."
    )


def _inferred(model: ModelProto, outputs: Sequence[str], path: str) -> dict[str, TensorType]:
    """The types of a segment's outputs, as far as onnx infers them."""
    probe = ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
    try:
        inferred = onnx.shape_inference.infer_shapes(probe)
    except (onnx.shape_inference.InferenceError, ValueError) as error:
        raise ModelError(
            f"{path}: the types of {list(outputs)} are not declared and cannot be inferred "
            f"({error}): add them to the graph's value_info."
        ) from error
    found = {info.name: tensor_type(info) for info in inferred.graph.output}
    return {name: kind for name, kind in found.items() if kind}


def with_initializers(
    model: ModelProto, initializers: Iterable[TensorProto], inputs: Iterable[ValueInfoProto] = ()
) -> ModelProto:
    """A copy of a segment's model with other initializers, and `inputs` after its own.

    The memory of the old initializers can be freed.
    """
    copy = ModelProto(
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        opset_import=model.opset_import,
    )
    graph, source = copy.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend([*source.input, *inputs])
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.initializer.extend(initializers)
    return copy
