"""Files of named groups: MindSpore's own bytes, every kind of damage, anything at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from group_files import encoded
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.group_info import read_groups

pytestmark = pytest.mark.pure

# What the node_strategy_pb2 of MindSpore 2.10 writes for these groups, restored on ranks 0 and 1.
MINDSPORES = bytes.fromhex(
    "0a0a0a0274701204080008010a110a0670702d302d3212070800080208ac02120408000801"
)


def read(folder: Path, data: bytes) -> dict[str, tuple[int, ...]]:
    path = folder / "groups.ckpt"
    path.write_bytes(data)
    return read_groups(str(path))


GROUPS = {"tp": (0, 1), "pp-0-2": (0, 2, 300), "ünïcode": (7,)}


def test_the_bytes_that_mindspore_writes(tmp_path: Path):
    assert read(tmp_path, MINDSPORES) == {"tp": (0, 1), "pp-0-2": (0, 2, 300)}


@pytest.mark.parametrize("packed", [False, True])
def test_groups_by_name(tmp_path: Path, packed: bool):
    assert read(tmp_path, encoded(GROUPS, packed=packed)) == GROUPS


def test_fields_that_nobody_needs_are_skipped(tmp_path: Path):
    extra = b"\x12\x02\x08\x05" + b"\x18\x05" + b"\x21" + b"x" * 8 + b"\x2d" + b"x" * 4
    assert read(tmp_path, extra + encoded(GROUPS) + extra) == GROUPS


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it has no groups"),
        (b"\x12\x02\x08\x05", "it has no groups"),
        (encoded(GROUPS)[:-1], "ends after its message"),
        (b"\x0a\xff\xff\xff\xff\x0f", "ends after its message"),
        (b"\xff" * 11, "does not end"),
        (b"\x0a", "does not end"),
        (b"\x0b", "starts no field"),
        (b"\x08\x01", "holds a number"),
        (encoded({"": (0,)}), "the group '' is ranks [0], which no group can be"),
        (encoded({"g": ()}), "the group 'g' is ranks [], which no group can be"),
        (encoded({"g": (1, 1)}), "the group 'g' is ranks [1, 1], which no group can be"),
        (encoded({"g": (1 << 40,)}), "is no rank"),
        (encoded({"g": (0,)}) + encoded({"g": (1,)}), "'g' is there twice"),
        (b"\x0a\x09\x0a\x01\xff\x12\x04\x08\x00\x08\x01", "is no text"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, data: bytes, text: str):
    with pytest.raises(UsageError) as caught:
        read(tmp_path, data)
    assert f"group_info_file {tmp_path / 'groups.ckpt'}: is no map of groups: " in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize("name", ["missing.ckpt", "."])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str):
    with pytest.raises(
        UsageError, match=r"group_info_file .*: cannot be read: (No such file|Is a directory)"
    ):
        read_groups(str(tmp_path / name))


@given(
    st.binary(max_size=60)
    | st.builds(
        lambda at, byte: bytes(byte if i == at else b for i, b in enumerate(encoded(GROUPS))),
        st.integers(0, 40),
        st.integers(0, 255),
    )
)
def test_any_bytes_are_groups_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    try:
        groups = read(tmp_path_factory.getbasetemp(), data)
    except UsageError:
        return
    assert all(name and ranks for name, ranks in groups.items())
