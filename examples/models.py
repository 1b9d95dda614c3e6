"""The small models of the examples, always with the same numbers.

Usage: python models.py EXAMPLE FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from classifier import Classifier
from mindir_writer import MindirWriter

RANDOM = np.random.default_rng(0)
FLOAT32_ID = 43  # MindSpore's own number for float32


def single(folder: Path) -> None:
    """The downloads of the documents: the model and one image."""
    Classifier(1000).save(folder / "mobilenetv2.mindir", "shape1")


def concurrent(folder: Path) -> None:
    """The same network as the older document has it: 1001 classes, a name that ends in .ms."""
    Classifier(1001).save(folder / "mobilenetv2.ms", "Softmax-65")


def weight_sharing(folder: Path) -> None:
    """In place of a UNet: relu(sample @ proj.weight) @ out.weight + timestep, for one row."""
    model = MindirWriter()
    sample, timestep = (
        model.input("sample", (1, 512)),
        model.input("timestep", (1,), np.dtype(np.int32)),
    )
    x = matmul(model, sample, "proj.weight", weights(512, 512), 1)
    x = matmul(model, model.node("ReLU", x, shape=(1, 512)), "out.weight", weights(512, 512), 1)
    step = model.node("Cast", timestep, FLOAT32_ID, shape=(1,))
    model.save(folder / "unet.mindir", model.node("Add", x, step, shape=(1, 512)), (1, 512))


def distributed(folder: Path) -> None:
    """Matmul0.mindir and Matmul1.mindir, one for each rank, and two models with equal weights."""
    w1, w2 = weights(32, 64), weights(64, 16)
    for rank, half in enumerate((slice(32), slice(32, 64))):
        shard(folder / f"Matmul{rank}.mindir", w1[:, half], w2[half])
    first, second = weights(256, 256), weights(256, 256)
    for name, rows in (("prompt", 16), ("token", 1)):
        model = MindirWriter()
        x = matmul(model, model.input("x", (rows, 256)), "first.weight", first, rows)
        x = matmul(model, model.node("ReLU", x, shape=(rows, 256)), "second.weight", second, rows)
        model.save(folder / f"{name}.mindir", x, (rows, 256))


def shard(path: Path, w1: np.ndarray, w2: np.ndarray) -> None:
    """One rank's part of relu(x @ W1) @ W2.

    The rank has half of W1's columns and the same half of W2's rows; the parts of all ranks are
    added.
    """
    model = MindirWriter()
    x = matmul(model, model.input("x", (4, 32)), "w1", w1, 4)
    x = matmul(model, model.node("ReLU", x, shape=(4, 32)), "w2", w2, 4)
    total = model.node("AllReduce", x, shape=(4, 16), group="hccl_world_group", op="sum")
    model.save(path, total, (4, 16))


def matmul(model: MindirWriter, x: str, name: str, weight: np.ndarray, rows: int) -> str:
    """A node x @ weight; neither is transposed (the two False)."""
    return model.node(
        "MatMul", x, model.weight(name, weight), False, False, shape=(rows, weight.shape[1])
    )


def weights(*shape: int) -> np.ndarray:
    """Random weights, small enough that results are about as large as inputs."""
    return RANDOM.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5)


EXAMPLES = {make.__name__: make for make in (single, concurrent, weight_sharing, distributed)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in EXAMPLES:
        sys.exit(f"usage: python models.py {'|'.join(EXAMPLES)} FOLDER")
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    EXAMPLES[sys.argv[1]](folder)
