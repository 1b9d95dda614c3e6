"""Trials: run the graphs of all ranks in lockstep, and compare with the whole model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime

from ....comm.errors import ModelError
from ...source_graph.source_graph import SourceGraph
from ..placement.slice_plan import SlicePlan
from .localise import local_model
from .lockstep import merged

Arrays = Mapping[str, np.ndarray]

_FOLDER = "session.model_external_initializers_file_folder_path"
_LEAST = 1024
"""Elements of the smallest weights that are inputs of a session, not constants."""


def run_model(model: ir.Model, inputs: Arrays, fused: bool = False) -> list[np.ndarray]:
    """The outputs of a model, computed by onnxruntime on the CPU; ModelError where it refuses.

    With `fused` onnxruntime fuses nodes as it does for ranks.
    """
    session = _session(model, fused)
    try:
        found: list[np.ndarray] = session.run(None, dict(inputs))
    except Exception as error:  # onnxruntime's own exception classes have no common base
        raise ModelError(f"onnxruntime does not run the model: {error}") from error
    return found


def _session(model: ir.Model, fused: bool = False) -> onnxruntime.InferenceSession:
    folder = _load_weights(model)
    options = onnxruntime.SessionOptions() if fused else _options(model)
    options.add_session_config_entry(_FOLDER, folder)
    options.log_severity_level = 4  # errors are raised, and say the same
    try:
        return onnxruntime.InferenceSession(
            ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's own exception classes have no common base
        raise ModelError(f"onnxruntime does not run the model: {error}") from error


def _options(model: ir.Model) -> onnxruntime.SessionOptions:
    """The options of a session.

    Fusions are left out: a trial runs a graph a few times, and onnxruntime 1.32 ends the process
    where it has fused a Transpose of float16 with a MatMul. A graph that rounds to 8 bits runs as
    it stands: what onnxruntime simplifies differs from graph to graph, and rounds differently.
    """
    levels = onnxruntime.GraphOptimizationLevel
    rounds = any(node.op_type == "QuantizeLinear" for node in model.graph.all_nodes())
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_DISABLE_ALL if rounds else levels.ORT_ENABLE_BASIC
    return options


def _load_weights(model: ir.Model) -> str:
    """Copy external weights into a model. The mapped files stay open: other models share them.

    Weights in blocks stay in files of one folder, which is returned: a session reads them there.
    """
    folder = ""
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                own = os.path.dirname(os.path.abspath(tensor.path))
                if is_packed(value) and folder in ("", own):
                    folder, value.const_value = own, _beside(tensor)
                else:
                    value.const_value = ir.Tensor(np.array(tensor.numpy()), dtype=tensor.dtype)
    return folder


def _beside(tensor: ir.ExternalTensor) -> ir.ExternalTensor:
    """A tensor whose file is named without its folder, as onnxruntime asks for it."""
    folder, name = os.path.split(os.path.abspath(tensor.path))
    return ir.ExternalTensor(
        name,
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=tensor.shape,
        name=str(tensor.name),
        base_dir=folder,
    )


def is_packed(value: ir.Value) -> bool:
    """Whether a weight is in blocks of a few bits: products with one that is an input round less
    than with one that onnxruntime packs, as it does for ranks.
    """
    return any(use.node.op_type == "MatMulNBits" for use in value.uses())


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether onnxruntime takes and gives arrays of a dtype: those of numbers and bools that numpy
    itself has. The kind alone does not tell: that of ml_dtypes' float8_e5m2 is "f", too.
    """
    return dtype.isbuiltin == 1 and dtype.kind in "biuf"


class MappedSession:
    """A session of a model whose larger weights are inputs: mapped files, which are not copied."""

    def __init__(self, model: ir.Model) -> None:
        """ModelError where onnxruntime refuses the model."""
        self._weights: dict[str, np.ndarray] = {}
        embedded = model.clone()
        for name, value in list(model.graph.initializers.items()):
            tensor = value.const_value
            assert tensor is not None
            large = tensor.size >= _LEAST and is_numeric(tensor.dtype.numpy())
            if large and not is_packed(value):
                self._weights[name] = np.ascontiguousarray(tensor.numpy())
                del model.graph.initializers[name]
                model.graph.inputs.append(value)
        try:
            self._session = _session(model)
        except ModelError:  # some operators take constants only
            self._weights.clear()
            self._session = _session(embedded)

    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """The outputs; ModelError where onnxruntime fails."""
        try:
            found: list[np.ndarray] = self._session.run(None, {**inputs, **self._weights})
        except Exception as error:  # onnxruntime's own exception classes have no common base
            raise ModelError(f"onnxruntime does not run the model: {error}") from error
        return found


def run_in_lockstep(graph: SourceGraph, plan: SlicePlan, inputs: Arrays) -> list[list[np.ndarray]]:
    """The outputs of each rank of the last stage, as the plan slices the model."""
    models = [local_model(graph, plan, rank) for rank in range(plan.world_size)]
    found = run_model(merged(models), inputs)
    count = len(graph.model.graph.outputs)
    last = range(plan.world_size - plan.ranks, plan.world_size)
    return [found[rank * count : (rank + 1) * count] for rank in last]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of a rank whose relative error is larger than `most`."""

    value: str
    rank: int
    error: float
    most: float

    def __str__(self) -> str:
        return (
            f"The sliced model differs: value '{self.value}' of rank {self.rank} has the relative "
            f"error {self.error:.1e}, expected at most {self.most:.0e}"
        )


def relative_error(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference, divided by the largest value of its output; inf where shapes or NaN
    differ.
    """
    worst = 0.0
    for one, wanted in zip(got, expected, strict=True):
        if one.shape != wanted.shape or one.dtype != wanted.dtype:
            return float("inf")
        if not one.size:
            continue
        a, b = one.astype(np.float64), wanted.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):  # infinity minus infinity, of values that are the same
            gap = np.where(same, 0.0, np.abs(a - b))
        finite = np.abs(b[np.isfinite(b)])
        largest = float(finite.max()) if finite.size else 0.0
        error = float(gap.max()) / max(largest, 1e-30)
        worst = max(worst, error if np.isfinite(error) else float("inf"))
    return worst
