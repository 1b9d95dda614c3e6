"""The ONNX model of one segment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..comm.errors import ModelError
from .collective_nodes import DOMAIN
from .mindir.graph import TensorType
from .onnx_values import tensor_type, value_info


def segment_model(whole: ModelProto, nodes: Sequence[NodeProto], inputs: Sequence[tuple[str, TensorType]],
                  outputs: Sequence[str], initializers: Sequence[TensorProto], types: dict[str, TensorType],
                  path: str) -> ModelProto:
    """Some nodes of `whole` as a model of their own; adds to `types` those of `outputs` that are not known yet.

    Raises ModelError where they cannot be inferred.
    """
    graph = helper.make_graph(nodes, "segment", [value_info(*one) for one in inputs], [], initializer=initializers)
    model = helper.make_model(graph, ir_version=whole.ir_version, producer_name="rankmesh",
                              opset_imports=[opset for opset in whole.opset_import if opset.domain != DOMAIN])
    if any(name not in types for name in outputs):
        types.update({name: kind for name, kind in _inferred(model, outputs, path).items() if name not in types})
    missing = [name for name in outputs if name not in types]
    if missing:
        raise ModelError(f"{path}: the type of the value '{missing[0]}' is not declared and cannot be inferred (add "
                         f"it to the graph's value_info), or is no tensor of numbers or bools.")
    model.graph.output.extend(value_info(name, types[name]) for name in outputs)
    return model


def _inferred(model: ModelProto, outputs: Sequence[str], path: str) -> dict[str, TensorType]:
    """What onnx can tell about the types of a segment's outputs."""
    probe = ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
    try:
        inferred = onnx.shape_inference.infer_shapes(probe)
    except (onnx.shape_inference.InferenceError, ValueError) as error:
        raise ModelError(f"{path}: the types of {list(outputs)} are not declared and cannot be inferred ({error}): add "
                         f"them to the graph's value_info.") from error
    found = {info.name: tensor_type(info) for info in inferred.graph.output}
    return {name: kind for name, kind in found.items() if kind}


def with_initializers(model: ModelProto, initializers: Iterable[TensorProto],
                      inputs: Iterable[ValueInfoProto] = ()) -> ModelProto:
    """A copy of a segment's model with other initializers, and `inputs` behind its own; the old ones can be freed."""
    copy = ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    copy.opset_import.extend(model.opset_import)
    graph, source = copy.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.input.extend(inputs)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.initializer.extend(initializers)
    return copy
