"""Outputs that are inputs or weights: what a file says of them as outputs is a hint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import model, node

from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.onnx_graph.onnx_values import tensor_type

pytestmark = pytest.mark.pure


def test_types_of_outputs_that_are_inputs_or_weights(tmp_path: Path) -> None:
    made = model(
        [node("Add", "x w", "y")],
        {"x": ["n", 4]},
        {"x": [9, 9], "w": [7], "y": [3, 4]},
        known={"x": [2]},
        constants={"w": np.ones((1, 4), np.float32)},
    )
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    graph = load_model(str(tmp_path / "m.onnx")).model.graph
    shapes = {info.name: tensor_type(info).shape for info in (*graph.value_info, *graph.output)}
    assert shapes == {"x": (-1, 4), "w": (1, 4), "y": (3, 4)}
