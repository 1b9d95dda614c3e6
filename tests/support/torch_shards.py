"""Torch modules that call collectives, exported as shards or run as ranks of torch.distributed.

    python torch_shards.py export FOLDER torchscript|dynamo
    python torch_shards.py eager FOLDER RANK

The first writes the shards of `Every` for two ranks: FOLDER/0.onnx and FOLDER/1.onnx. The second
writes its results on one of them.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.export import Dim
from torch_gradients import check_gradients, refused

import rankmesh.torch

NAMES = ["total", "largest", "columns", "part", "exchanged", "turned", "root"]
GROUPS = {
    "world": lambda rank: rankmesh.torch.Group(size=2, position=rank),
    "swapped": lambda rank: rankmesh.torch.Group("swapped", ranks=(1, 0), position=1 - rank),
}


def example() -> np.ndarray:
    """The input of `Every`."""
    return np.random.default_rng(5).standard_normal((3, 4, 6)).astype(np.float32)


def factor(rank: int) -> np.ndarray:
    """What makes the ranks' tensors differ."""
    return np.random.default_rng(rank).standard_normal((4, 6)).astype(np.float32)


class Every(torch.nn.Module):
    """Every collective, along axes of all kinds; the results are those of NAMES."""

    def __init__(self, rank: int, group: rankmesh.torch.Group) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.from_numpy(factor(rank)))
        self.group = group

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, group = rankmesh.torch.reduce_gradient(x, self.group) * self.factor, self.group
        return (
            rankmesh.torch.all_reduce(x, group=group),
            rankmesh.torch.all_reduce(x, "max", group),
            rankmesh.torch.all_gather(x, axis=-1, group=group),
            rankmesh.torch.reduce_scatter(x, axis=1, group=group),
            rankmesh.torch.all_to_all(x, split_axis=1, concat_axis=2, group=group),
            rankmesh.torch.all_to_all(x, split_axis=-1, concat_axis=2, group=group),
            rankmesh.torch.broadcast(x, root=1, group=group),
        )


def export(folder: Path, exporter: str) -> None:
    """Shards of both ranks for a group, whose first axis is open.

    With dynamo, rank 1 is exported as an ExportedProgram.
    """
    group = GROUPS["swapped" if exporter == "torchscript" else "world"]
    example, names = (torch.ones(2, 4, 6),), {"input_names": ["x"], "output_names": NAMES}
    for rank in (0, 1):
        path, model = str(folder / f"{rank}.onnx"), Every(rank, group(rank))
        if exporter == "torchscript":
            axes = {one: {0: "n"} for one in ("x", *NAMES)}
            torch.onnx.export(model, example, path, dynamo=False, dynamic_axes=axes, **names)
        elif rank == 0:
            shapes = ({0: "n"},)
            torch.onnx.export(
                model, example, path, dynamo=True, dynamic_shapes=shapes, verbose=False, **names
            )
        else:
            program = torch.export.export(model, example, dynamic_shapes=({0: Dim("n")},))
            nodes = rankmesh.torch.to_onnx_nodes(program)
            torch.onnx.export(nodes, (), path, dynamo=True, verbose=False, **names)


def backend_threads() -> list[str]:
    """The names of gloo's threads in this process."""
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]


def eager(folder: Path, rank: int) -> None:
    """The results on one rank, saved as an NPZ file for each group; then gradients and refusals."""
    store = dist.FileStore(str(folder / "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    for name, group in GROUPS.items():
        with torch.no_grad():
            found = Every(rank, group(rank))(torch.from_numpy(example()))
        np.savez(
            folder / f"{name}{rank}.npz",
            **{key: one.numpy() for key, one in zip(NAMES, found, strict=True)},
        )
    check_gradients(rank)
    refused(rank)
    threads = backend_threads()
    dist.destroy_process_group()
    assert threads and not backend_threads(), "one that is left may abort the process at its exit"


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch deprecates its own names
    if sys.argv[1] == "export":
        export(Path(sys.argv[2]), sys.argv[3])
    else:
        eager(Path(sys.argv[2]), int(sys.argv[3]))
