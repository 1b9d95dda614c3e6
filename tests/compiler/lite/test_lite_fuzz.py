"""Bad .ms files of every kind: one clear error, and never another one."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from fuzzed import survives_lite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lite.flatbuffer import Flatbuffer, FlatbufferError
from rankmesh.compiler.lite.lite_file import read_lite
from rankmesh.compiler.lite.schema.lite_schema import lite_schema

pytestmark = pytest.mark.pure
SOURCES = [
    (Path(__file__).parents[2] / "data" / "ms" / f"{name}.ms").read_bytes()
    for name in ("conv_train_model", "lenet_tod_infer")
]
TABLES = 12_000
"""Bytes at the end of a file in which its tables lie; flatbuffers writes them back to front."""
WORDS = (0, 1, 2, 4, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC)
FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FUZZ
@given(st.sampled_from(SOURCES), st.integers(0, 2**32), st.integers(1, 12))
def test_words_changed(tmp_path: Path, source: bytes, seed: int, count: int) -> None:
    random, content = Random(seed), bytearray(source)
    for _ in range(count):
        if random.random() < 0.8:
            at = random.randrange(0, min(TABLES, len(content)) - 4)
        else:
            at = random.randrange(len(content) - 4)
        word = random.choice(WORDS) if random.random() < 0.5 else random.randrange(256)
        size = random.choice((1, 2, 4))
        content[at : at + size] = (word & (256**size - 1)).to_bytes(size, "little")
    survives_lite(tmp_path / "m.ms", bytes(content))


@FUZZ
@given(st.sampled_from(SOURCES), st.floats(0, 1))
def test_files_cut(tmp_path: Path, source: bytes, part: float) -> None:
    survives_lite(tmp_path / "m.ms", source[: int(part * len(source))])


def test_a_table_that_many_vectors_share_ends_in_an_error() -> None:
    """A vector of nodes that all are one node, whose inputs are a long vector."""
    count = 4000
    out = bytearray(struct.pack("<I4s", 8 + 24, b"MSL2"))
    out += struct.pack("<HH7HHH", 22, 8, *[0] * 6, 4, 0, 0) + b"\0\0"
    assert len(out) == 32
    out += struct.pack("<iI", 24, 4)  # the root: its nodes follow
    out += struct.pack("<I", count)
    node_at = len(out) + 4 * count + 12
    for _ in range(count):
        out += struct.pack("<I", node_at - len(out))
    out += struct.pack("<HH4H", 12, 8, 0, 0, 0, 4)
    assert len(out) == node_at
    out += struct.pack("<iI", 12, 4) + struct.pack("<I", count) + bytes(4 * count)
    root = Flatbuffer(memoryview(bytes(out)), lite_schema()).root("MetaGraph")
    with pytest.raises(FlatbufferError, match="shared so often"):
        for node in root["nodes"]:
            node["inputIndex"]


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (b"\0\0\0\0MSL2", "leads nowhere"),
        (b"\xff\xff\xff\x7fMSL2" + bytes(64), "lies outside of the file of 72"),
        (b"\x08\0\0\0MSL2\0\0\0\0" + bytes(64), "is 8 long|is 0 long"),
        (b"MSL2", "less than 8 bytes"),
    ],
)
def test_bytes_that_are_no_message(tmp_path: Path, content: bytes, phrase: str) -> None:
    path = tmp_path / "m.ms"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=phrase):
        read_lite(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with suppress(ModelError):
        read_lite(str(tmp_path / "none.ms"))
        raise AssertionError
