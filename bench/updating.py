"""Two ONNX models whose weights weights.py updates: a table of 64 MiB, and a chain of products with
16 MiB each.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper, save
from onnx_writer import IR_VERSION, OPSET

ROWS, WIDTH, LAYERS = 16384, 1024, 4
_DENSE = 2048


def write(folder: Path) -> None:
    """Write table.onnx and dense.onnx, their weights beside them."""
    random = np.random.default_rng(0)
    _save(
        folder / "table.onnx",
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        TensorProto.INT32,
        (4,),
        (4, WIDTH),
        {"table": random.standard_normal((ROWS, WIDTH), np.float32)},
    )
    nodes, x = [], "x"
    for layer in range(LAYERS):
        y = "y" if layer == LAYERS - 1 else f"h{layer}"
        nodes.append(helper.make_node("MatMul", [x, f"w{layer}"], [y]))
        x = y
    scale = np.float32(_DENSE**-0.5)
    _save(
        folder / "dense.onnx",
        nodes,
        TensorProto.FLOAT,
        (4, _DENSE),
        (4, _DENSE),
        {
            f"w{i}": random.standard_normal((_DENSE, _DENSE), np.float32) * scale
            for i in range(LAYERS)
        },
    )


def _save(
    path: Path,
    nodes: list[NodeProto],
    kind: int,
    given: tuple[int, ...],
    made: tuple[int, ...],
    weights: dict[str, np.ndarray],
) -> None:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("x", kind, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, made)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    save(model, str(path), save_as_external_data=True, location=f"{path.stem}.bin")
