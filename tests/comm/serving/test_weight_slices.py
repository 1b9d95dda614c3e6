"""Files of weight slices: what is no slice of a weight, or is of other shards, is refused."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from rankmesh.comm.errors import ModelError
from rankmesh.comm.serving.weight_slices import (
    WEIGHTS,
    WeightSlice,
    WeightSlices,
    read_weight_slices,
)

pytestmark = pytest.mark.pure
SLICES = WeightSlices("m_rank{rank}.onnx", ({"a": WeightSlice("w", (4, 6), 1, ((0, 3),))},) * 2)


def written(folder: Path, slices: WeightSlices = SLICES) -> str:
    (folder / WEIGHTS).write_bytes(msgspec.json.encode(slices))
    return str(folder / slices.pattern)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_weight_slices(written(tmp_path), 2) == SLICES


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ((1 << 31, ((0, 3),), ()), "axis 2147483648 of 2 axes is cut"),
        ((-1, ((0, 3),), ()), "axis -1 of 2 axes"),
        ((10**400, (), ()), "axis 10*"),
        ((1, ((0, 7),), ()), "the cut from 0 to 7 is outside"),
        ((1, ((3, 0),), ()), "the cut from 3 to 0 is outside"),
        ((1, ((0, 6),), (1, 0)), "the cut from 0 to 6 is outside"),
        ((1, (), (1, 1)), r"the order \[1, 1\] is none of 2 axes"),
    ],
)
def test_a_slice_that_no_weight_has_is_refused(
    tmp_path: Path, part: tuple[int, tuple[tuple[int, int], ...], tuple[int, ...]], reason: str
) -> None:
    axis, cuts, order = part
    pattern = written(tmp_path)
    changed = {
        "pattern": SLICES.pattern,
        "ranks": [{"a": ["w", (4, 6), axis, cuts, False, order]}] * 2,
    }
    (tmp_path / WEIGHTS).write_bytes(msgspec.json.encode(changed))
    with pytest.raises(ModelError, match=f"weights.json: cannot be read: {reason}"):
        read_weight_slices(pattern, 2)


def test_slices_of_another_number_of_ranks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="it has 2 ranks, expected 3"):
        read_weight_slices(written(tmp_path), 3)


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / WEIGHTS)
    with pytest.raises(ModelError, match="it is a named pipe, expected a regular file"):
        read_weight_slices(str(tmp_path / SLICES.pattern), 2)
