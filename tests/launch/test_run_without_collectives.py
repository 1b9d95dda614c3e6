"""Several ranks of a model without collectives: whole copies, which the report says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper
from processes import rankmesh
from shards import write_shard

MLP = Path(__file__).parents[1] / "data" / "mindir" / "mlp"


def notes(*arguments: object) -> list[str]:
    done = rankmesh("run", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("note: ")]


def test_copies_of_one_file() -> None:
    saved = ["--inputs", MLP / "mlp.npz", "--expect", MLP / "mlp.npz"]
    (note,) = notes(MLP / "mlp.mindir", "--ranks", 2, *saved)
    assert note.startswith(
        f"note: {MLP}/mlp.mindir has no collectives: these are 2 whole copies of the model"
    )
    assert "replicas=2" in note and "slice it first" in note
    assert not notes(MLP / "mlp.mindir", *saved)


def test_shards_that_exchange_nothing(tmp_path: Path) -> None:
    for rank in range(2):
        write_shard(
            tmp_path / f"m{rank}.onnx",
            [helper.make_node("Mul", ["x", "w"], ["y"])],
            {"w": np.float32([rank])},
        )
    (note,) = notes(tmp_path / "m.onnx")
    assert note.startswith(f"note: {tmp_path}/m0.onnx and the other shards have no collectives")


def test_shards_that_do() -> None:
    folder = MLP.parent / "dist_pipeline_2"
    assert not notes(folder / "dist_pipeline_2_rank.mindir")
