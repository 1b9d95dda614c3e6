"""Slices of decoders: ranks run a step on their parts of the states before shards are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.slicing.emission.weight_part import WeightPart
from rankmesh.compiler.slicing.slicer import plan_slices, slice_model

CONFIG = str(Path(__file__).parents[3] / "data" / "decoders" / "llama" / "genai_config.json")


def test_two_all_reduces_per_layer_and_states_that_stay(tmp_path: Path) -> None:
    """And one for the embedding, whose rows the ranks share."""
    report = slice_model(CONFIG, plan_slices(CONFIG, 2), str(tmp_path / "shards"))
    assert report.proof == "ranks"
    assert "a step run by 2 ranks together, largest relative error" in report.verification
    assert report.collectives == ({"AllReduce": 5}, {"AllReduce": 5})
    assert not list((tmp_path / "shards").glob("trial*"))


def test_a_wrong_weight_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = WeightPart.pieces

    def wrong(part: WeightPart, most: int = 8 << 20) -> Iterator[tuple[int, bytes | memoryview]]:
        for at, piece in right(part, most):
            yield at, bytes(piece) if "down_proj" not in part.weight else bytes(len(piece))

    monkeypatch.setattr(WeightPart, "pieces", wrong)
    with pytest.raises(ModelError, match="The ranks answer something else than the unsliced model"):
        slice_model(CONFIG, plan_slices(CONFIG, 2), str(tmp_path / "shards"))
    assert not (tmp_path / "shards").exists()
