"""Models whose work is nothing, or next to nothing: what is left is the orchestrator's own time."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto, helper, save

_SIZES = {"4KB": 1 << 10, "16MB": 1 << 22}


def write(folder: Path) -> dict[str, str]:
    """NAME.onnx of an echo of each size, twice for two ranks, and y = 2x: `double` of [64, 64] and
    `16MB doubled`; the paths by name.
    """
    paths = {}
    for name, size in _SIZES.items():
        for suffix in ("", "_rank0", "_rank1"):
            paths[name + suffix] = _save(
                folder / f"{name}{suffix}.onnx", [size], helper.make_node("Identity", ["x"], ["y"])
            )
    paths["double"] = _save(
        folder / "double.onnx", [64, 64], helper.make_node("Add", ["x", "x"], ["y"])
    )
    paths["16MB doubled"] = _save(
        folder / "16MB_doubled.onnx", [_SIZES["16MB"]], helper.make_node("Add", ["x", "x"], ["y"])
    )
    return paths


def write_ranks(folder: Path, ranks: int) -> str:
    """An echo of 4 KB for each of `ranks` ranks; the pattern of their names."""
    for rank in range(ranks):
        _save(
            folder / f"echo_rank{rank}.onnx", [1 << 10], helper.make_node("Identity", ["x"], ["y"])
        )
    return str(folder / "echo_rank{rank}.onnx")


def _save(path: Path, shape: list[int], node: object) -> str:
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([node], path.stem, kinds[:1], kinds[1:])
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        str(path),
    )
    return str(path)
