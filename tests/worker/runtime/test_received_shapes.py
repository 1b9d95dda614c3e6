"""Receives whose shapes come as an input: sizes that only a request tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meetings import together
from onnx import ModelProto, TensorProto, save
from onnx_models import collective, model, node

from rankmesh.comm.errors import InputError
from rankmesh.worker.runtime.opening import open_program
from rankmesh.worker.runtime.program_spec import ProgramSpec
from rankmesh.worker.session.shape_inference import output_shapes

F32, X, Y = np.float32, {"x": ["batch", "sequence"]}, {"y": ["batch", "sequence"]}


def shards(declared: list[int]) -> list[ModelProto]:
    """Rank 0 sends 2x and its shape, rank 1 gives 2x + 1."""
    first = [
        node("Add", "x x", "a"),
        node("Shape", "a", "n"),
        collective("Send", "n", "", to=1),
        collective("Send", "a", "", to=1),
    ]
    then = [
        collective("Receive", "", "n", source=0, shape=[2], dtype=TensorProto.INT64),
        collective("Receive", "n", "a", source=0, shape=declared, dtype=TensorProto.FLOAT),
        node("Add", "a w", "y"),
    ]
    return [
        model(first, X, Y, constants={"y": np.float32(0)}),
        model(then, X, Y, constants={"w": np.ones(1, F32)}),
    ]


def run(folder: Path, declared: list[int], *inputs: np.ndarray) -> list[Any]:
    """What rank 1 gives for each input; the ranks are threads."""
    for rank, shard in enumerate(shards(declared)):
        save(shard, str(folder / f"m{rank}.onnx"))

    def act(meeting: Any) -> list[Any]:
        program = open_program(ProgramSpec(str(folder / f"m{meeting.rank.rank}.onnx")), meeting)
        try:
            if meeting.rank.rank == 1:
                assert output_shapes(program.plan, [inputs[0].shape]) == [tuple(declared)]
            return [program.predict({"x": x})["y"] for x in inputs]
        finally:
            program.close()

    return together(2, act)[1]  # type: ignore[no-any-return]


def test_each_request_has_its_own_shape(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    inputs = [draw.random(shape, F32) for shape in ((2, 3), (1, 1), (700, 600), (0, 4), (5, 3))]
    for x, y in zip(inputs, run(tmp_path, [-1, -1], *inputs), strict=True):
        np.testing.assert_array_equal(y, 2 * x + 1)


def test_a_shape_that_the_file_rules_out(tmp_path: Path) -> None:
    (tmp_path / "fits").mkdir()
    assert run(tmp_path / "fits", [-1, 3], np.ones((2, 3), F32))[0].shape == (2, 3)
    with pytest.raises(
        InputError, match=r"\(Receive\) was told to receive .* \[2, 4\], .* declares \[-1, 3\]"
    ):
        run(tmp_path, [-1, 3], np.ones((2, 4), F32))
