"""Refused models: tells a model that onnxruntime refuses from a fault of ours.

Slicing and conversion take a model apart by rules that a wrong one may break anywhere. Only once
something has failed, onnxruntime is asked; its reason is then the error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from onnx import GraphProto, ModelProto, helper

from ...comm.errors import ModelError, OutOfMemory, RankmeshError, out_of_memory
from .model_format import ONNX, format_of, load_model

_SMALL = 1024
"""Elements of the largest weights that onnxruntime gets; larger ones are inputs to it."""


@contextmanager
def refused_by_onnxruntime(path: str) -> Iterator[None]:
    """Errors of other classes inside become a ModelError where onnxruntime refuses the model at
    `path`, and an OutOfMemory where it is too large.
    """
    try:
        yield
    except RankmeshError:
        raise
    except MemoryError as error:
        raise OutOfMemory(f"{path}: {out_of_memory(error)}") from error
    except Exception as error:
        reason = _refusal(path)
        if not reason:
            raise
        raise ModelError(f"{path}: onnxruntime refuses the model: {reason}") from error


def _refusal(path: str) -> str:
    """Why onnxruntime refuses the model at `path`; "" where it does not."""
    if not os.path.isfile(path) or format_of(path) is not ONNX:
        return ""
    import onnxruntime  # only after a failure

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, and say the same
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = _without_large_weights(load_model(path).model).SerializeToString()
    try:
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exception classes have no common base
        return " ".join(str(error).split())
    return ""


def _without_large_weights(model: ModelProto) -> ModelProto:
    """The model, whose larger weights are inputs: no file beside it is read."""
    graph = GraphProto()
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    given = {info.name for info in graph.input}
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= _SMALL and not tensor.external_data:
            graph.initializer.append(tensor)
        elif tensor.name not in given:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(info)
    graph.name = model.graph.name or "graph"
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
