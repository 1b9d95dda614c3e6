"""Weight parts: the pieces of a part are its bytes, and holes of the source stay holes."""

import os

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from rankmesh.compiler.slicing.emission.weight_part import WeightPart
from rankmesh.compiler.slicing.placement.placements import MAX, SUM, WHOLE, Split, Windows

pytestmark = pytest.mark.pure


def joined(part, most=1 << 20):
    found = bytearray(part.nbytes)
    for at, piece in part.pieces(most):
        found[at : at + len(piece)] = piece
    return bytes(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.bool_])
@pytest.mark.parametrize(
    "placement",
    [
        WHOLE,
        SUM,
        MAX,
        Split(0, (0, 5, 6)),
        Split(1, (0, 3, 8)),
        Split(2, (0, 1, 10)),
        Split(1, (0, 1, 2), (2, 1, 1)),
        Split(0, (0, 1, 2), (2, 1)),
        Windows(1, (0, 2), (5, 8)),
    ],
)
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_pieces_are_the_bytes_of_the_part(placement, dtype, piece):
    whole = np.random.default_rng(0).integers(0, 3, (6, 8, 10)).astype(dtype)
    for rank in (0, 1):
        part = WeightPart("w", ir.tensor(whole), placement, rank)
        expected = np.ascontiguousarray(part.array())
        assert expected.shape == part.shape
        assert joined(part, piece) == expected.tobytes()


def test_packed_types_stay_packed():
    whole = ir.tensor(np.arange(16).reshape(2, 8).astype(ml_dtypes.int4))
    part = WeightPart("w", whole, Split(1, (0, 4, 8)), 1)
    assert part.nbytes == 4
    assert joined(part) == ir.tensor(part.array(), dtype=ir.DataType.INT4).tobytes()


def test_holes_of_the_source_are_not_read(tmp_path):
    path = tmp_path / "w.data"
    last = np.arange(1024, dtype=np.float32)
    with open(path, "wb") as file:
        file.truncate(64 << 20)
        file.seek((64 << 20) - last.nbytes)
        file.write(last.tobytes())
    tensor = ir.ExternalTensor(
        path.name, 0, 64 << 20, ir.DataType.FLOAT, shape=ir.Shape([16384, 1024]), name="w",
        base_dir=str(tmp_path),
    )  # fmt: skip
    assert os.stat(path).st_blocks * 512 < 1 << 20
    first, second = (WeightPart("w", tensor, Split(0, (0, 8192, 16384)), rank) for rank in (0, 1))
    assert list(first.pieces()) == []
    assert sum(len(piece) for _, piece in second.pieces()) <= 8 << 20
    assert joined(second) == second.array().tobytes()
