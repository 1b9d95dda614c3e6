"""Small ONNX shards with collectives, for runs of real processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper, save

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("rankmesh", 1)]


def write_shard(
    path: Path,
    nodes: Sequence[NodeProto],
    constants: dict[str, np.ndarray] | None = None,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    shape: Sequence[int] = (4,),
) -> Path:
    """A float32 model whose inputs and outputs all have `shape`."""
    graph = helper.make_graph(
        nodes,
        "shard",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in inputs],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    save(helper.make_model(graph, opset_imports=OPSETS, ir_version=10), str(path))
    return path


def all_reduce(source: str, target: str, **attributes: object) -> NodeProto:
    """An AllReduce among all ranks."""
    return helper.make_node(
        "AllReduce",
        [source],
        [target],
        name=f"sum_{target}",
        domain="rankmesh",
        group="world",
        **attributes,
    )


def summing(folder: Path, ranks: int = 2) -> str:
    """y = the ranks' 2x, summed; returns the pattern."""
    for rank in range(ranks):
        write_shard(
            folder / f"sum{rank}.onnx",
            [helper.make_node("Add", ["x", "x"], ["d"]), all_reduce("d", "y")],
        )
    return str(folder / "sum{rank}.onnx")


def with_a_busy_rank(folder: Path, ranks: int = 2) -> str:
    """As `summing`, but the last rank computes (all but) for ever before its AllReduce."""
    pattern = summing(folder, ranks)
    write_shard(
        folder / f"sum{ranks - 1}.onnx",
        [endless("x", "d"), all_reduce("d", "y")],
        {"trips": np.array(2**62), "go": np.array(True)},
    )
    return pattern


def endless(source: str, target: str) -> NodeProto:
    """A loop of 2**62 rounds."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["on_in"], ["on"]), helper.make_node("Neg", ["v_in"], ["v"])],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("on_in", TensorProto.BOOL, []),
            info("v_in", TensorProto.FLOAT, [4]),
        ],
        [info("on", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [4])],
    )
    return helper.make_node("Loop", ["trips", "go", source], [target], body=body)
