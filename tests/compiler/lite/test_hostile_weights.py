"""Packed weights of hostile .ms files: bounded in memory and time, and read where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lite_models import LiteModel, run_model

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lite.lite_file import read_lite

F32 = np.float32
X = np.random.default_rng(5).normal(size=(3, 8)).astype(F32)
PARAMS = [{"scale": 0.5, "zeroPoint": 0, "numBits": 4, "inited": True}]


def saved(path: Path, weight: np.ndarray, data: bytes, **fields: Any) -> str:
    """A product with one packed weight, whose bytes are `data`."""
    model = LiteModel()
    at = model.constant(weight, "w", quantParams=PARAMS, **fields)
    model.tensors[at]["data"] = list(data)
    y = model.value(F32, (3, 4))
    model.node("MatMulFusion", [model.input(X), at], [y], {"transpose_b": True})
    model.outputs = [y]
    path.write_bytes(model.content())
    return str(path)


NOUGHT = np.zeros((4, 8), np.int8)
ENDLESS = bytes([0]) + b"\xff" * 4 + bytes([0x10]) + bytes(8)
"""A sparse tensor of 2^32 - 1 numbers of no bits: no gaps, and one number in the table."""
LONG_CODE = b"7#" + b"1" * 300 + b"#" + bytes(40)


def coded(*frequencies: int, log: int = 4, words: int = 1) -> bytes:
    """The head of data compressed by FSE, and one word of bits."""
    head = np.asarray([2, log], "<u2").tobytes() + np.uint32(words).tobytes()
    return head + np.asarray(frequencies or (8, 8), "<u4").tobytes() + bytes(16) + b"\x14"


@pytest.mark.parametrize(
    ("data", "fields", "text"),
    [
        (ENDLESS, {"weightQuantCompressType": "SPARSE"}, "32 elements has 4294967295 numbers"),
        (LONG_CODE, {"enableHuffmanCode": True}, "no code of up to 256 bits for each number"),
        (b"7#", {"enableHuffmanCode": True}, "no table of codes before them"),
        (b"7 8#1#", {"enableHuffmanCode": True}, "no code of up to 256 bits for each number"),
        (b"1", {"weightQuantCompressType": "FSE_INT"}, "have 1 bytes, expected a head of 8"),
        (coded(log=40), {"weightQuantCompressType": "FSE_INT"}, r"2\^40 states, expected 2\^4"),
        (coded(3, 5), {"weightQuantCompressType": "FSE_INT"}, "no 2 values for 16 states"),
        (
            coded(words=9),
            {"weightQuantCompressType": "FSE_INT"},
            "bytes, expected 96 and more",
        ),
        (coded(words=0), {"weightQuantCompressType": "FSE_INT"}, "end with 0 bits of word 0"),
        (coded(), {"weightQuantCompressType": "FSE_INT"}, "end [0-9]+ elements too early"),
    ],
)
def test_packed_data_that_ask_for_too_much(
    tmp_path: Path, data: bytes, fields: dict, text: str
) -> None:
    with pytest.raises(ModelError, match=text):
        read_lite(saved(tmp_path / "m.ms", NOUGHT, data, **fields))


def test_many_packed_tensors_are_counted_together(tmp_path: Path) -> None:
    """Tensors may share one vector of bytes, of which each byte stands for many elements."""
    model = LiteModel()
    for _ in range(64):
        at = model.constant(np.zeros((), np.int8), quantParams=PARAMS)
        fields = {"dims": [1 << 18], "data": [0], "weightQuantCompressType": "INDEXING"}
        model.tensors[at] |= fields
    model.outputs = [0]
    (tmp_path / "m.ms").write_bytes(model.content())
    with pytest.raises(ModelError, match="more than 1024 elements for each byte"):
        read_lite(str(tmp_path / "m.ms"))


def test_packed_data_in_another_file_are_read_there(tmp_path: Path) -> None:
    values = np.arange(-8, 24).reshape(4, 8) % 16 - 8
    low, high = (values.reshape(-1)[at::2] + 8 for at in (0, 1))
    data = (low | high << 4).astype(np.uint8).tobytes()
    (inside,) = run_model(read_lite(saved(tmp_path / "n.ms", values.astype(np.int8), data)), [X])
    (tmp_path / "w.bin").write_bytes(b"before" + data)
    external = [{"location": "w.bin", "offset": 6, "length": len(data)}]
    path = saved(tmp_path / "m.ms", values.astype(np.int8), b"", externalData=external)
    (outside,) = run_model(read_lite(path), [X])
    np.testing.assert_allclose(inside, X @ (values * 0.5).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(inside, outside)
