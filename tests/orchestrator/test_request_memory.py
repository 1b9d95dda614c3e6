"""Where outputs lie, and what an interrupt leaves behind when a request is being given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import save
from onnx_models import model, node
from processes import PATIENCE
from served_models import echo

from rankmesh import Orchestrator
from rankmesh.comm.serving.ring import Ring

F32 = np.float32


def test_ranks_may_give_outputs_of_other_shapes_under_one_name(tmp_path: Path) -> None:
    for rank, copies in enumerate((1, 2)):
        save(
            model(
                [node("Concat", " ".join(["x"] * copies), "y", axis=1)],
                {"x": [1, 4]},
                {"y": [1, 4 * copies]},
            ),
            str(tmp_path / f"m{rank}.onnx"),
        )
    x = np.arange(4, dtype=F32)[None]
    with Orchestrator(str(tmp_path / "m{rank}.onnx"), ranks=2) as orchestrator:
        for _ in range(3):
            first, second = orchestrator.predict(x, results="all")
            np.testing.assert_array_equal(first["y"], x)
            np.testing.assert_array_equal(second["y"], np.concatenate([x, x], 1))


def test_an_empty_output_behind_a_room_that_is_full(tmp_path: Path) -> None:
    """64 KiB is what outputs of unknown size get at first, and a whole number of pages."""
    path = str(tmp_path / "m.onnx")
    save(
        model(
            [node("Add", "x x", "y"), node("NonZero", "x", "z")],
            {"x": [16384]},
            {"y": [16384], "z": (np.int64, [1, "found"])},
        ),
        path,
    )
    with Orchestrator(path) as orchestrator:
        for x in (np.zeros(16384, F32), np.eye(1, 16384, 7, dtype=F32)[0], np.zeros(16384, F32)):
            answer = orchestrator.predict(x)
            np.testing.assert_array_equal(answer["y"], 2 * x)
            np.testing.assert_array_equal(answer["z"], np.array(np.nonzero(x)))


@pytest.mark.parametrize("call", ["submit", "predict"])
def test_an_interrupt_while_a_request_is_given_holds_nobody_up(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(4, dtype=F32)
    with Orchestrator(echo(tmp_path, 4), timeout=None) as orchestrator:
        with monkeypatch.context() as patched:

            def interrupted(*_: object) -> None:
                raise KeyboardInterrupt

            patched.setattr(Ring, "give", interrupted)
            with pytest.raises(KeyboardInterrupt):
                getattr(orchestrator, call)(x)
        for future in [orchestrator.submit(x) for _ in range(3)]:
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], x)
        assert orchestrator.metrics()["echo"]["cancelled"] == 1
