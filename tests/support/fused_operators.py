"""Fused operators: models of one, computed by torch and by onnxruntime's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, ValueInfoProto, helper
from onnx_models import graph

from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.partition.plan import Segment

F32, I32 = np.float32, np.int32
FUSED = "com.microsoft"
Case = tuple[str, list[Any], tuple[int, ...], dict[str, Any]]
"""An operator, its inputs (None where omitted), the outputs that are wanted, and its attributes."""
TOLERANCE = 1e-5
"""Of the largest magnitude; quantised results may differ by one, where half a step is rounded."""
_RANDOM = np.random.default_rng(1)


def real(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(F32)


def whole(low: int, high: int, *shape: int, dtype: Any = I32) -> np.ndarray:
    return _RANDOM.integers(low, high, shape).astype(dtype)


def number(value: Any, dtype: Any = F32) -> np.ndarray:
    return np.array(value, dtype)


def made(
    op_type: str,
    inputs: list[Any],
    outputs: tuple[int, ...],
    attributes: dict[str, Any],
    domain: str,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of one node with the outputs at some positions, and its inputs by name."""
    names = [f"x{at}" if one is not None else "" for at, one in enumerate(inputs)]
    found = [f"y{at}" if at in outputs else "" for at in range(max(outputs) + 1)]
    one = helper.make_node(op_type, names, found, name=op_type, domain=domain, **attributes)
    given = {name: array for name, array in zip(names, inputs, strict=True) if name}
    whole_graph = graph([one], {name: (array.dtype, array.shape) for name, array in given.items()})
    whole_graph.output.extend(ValueInfoProto(name=name) for name in found if name)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(whole_graph, opset_imports=opsets, ir_version=10), given


def by_torch(model: ModelProto, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    outputs = tuple(one.name for one in model.graph.output)
    prepared = TorchExecutor().prepare(Segment(model, tuple(given), outputs), "/")
    for _ in range(2):  # the second is of the calls for these shapes
        results = prepared.run(list(given.values()), [None] * len(outputs))
    return list(results)


def assert_equals_onnxruntime(model: ModelProto, given: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for wanted, result in zip(session.run(None, given), by_torch(model, given), strict=True):
        if not np.size(wanted):
            continue  # an output that the kernel leaves out
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        steps = wanted.dtype.kind in "iu" and wanted.dtype != I32
        allowed = 1 if steps else TOLERANCE * np.abs(wanted).max()
        np.testing.assert_allclose(result.astype(float), wanted.astype(float), 0, allowed)
