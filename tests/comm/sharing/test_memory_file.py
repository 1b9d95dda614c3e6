"""Files in memory: written by their maker, never by who was handed one."""

from __future__ import annotations

import mmap
import os

import pytest

from rankmesh.comm.sharing.memory_file import MemoryFile, map_read_only


@pytest.fixture
def file() -> MemoryFile:
    made = MemoryFile("test", 5000)
    made.bytes[:5] = b"hello"
    return made


def test_a_reader_sees_what_the_maker_writes(file: MemoryFile) -> None:
    view = map_read_only(file.fd)
    assert bytes(view[:5]) == b"hello"
    file.bytes[0:1] = b"J"
    assert bytes(view[:5]) == b"Jello"
    assert len(view) == file.size == 5000


def test_a_reader_cannot_write(file: MemoryFile) -> None:
    view = map_read_only(file.fd)
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(file.fd, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(file.fd, 4096)


@pytest.mark.parametrize("attack", [
    lambda fd: os.pwrite(fd, b"x", 0),
    lambda fd: mmap.mmap(fd, 4096),
    lambda fd: os.ftruncate(fd, 0),
    lambda fd: os.ftruncate(fd, 1 << 20),
])
def test_opening_it_again_for_writing_does_not_help(file: MemoryFile, attack) -> None:
    again = os.open(f"/proc/self/fd/{file.fd}", os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            attack(again)
    finally:
        os.close(again)
    assert bytes(file.bytes[:5]) == b"hello"


def test_a_mapping_outlives_the_descriptor(file: MemoryFile) -> None:
    view = map_read_only(file.fd)
    file.close()
    file.close()
    assert bytes(view[:5]) == b"hello"


def test_a_file_that_its_maker_could_shrink_is_refused() -> None:
    fd = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    try:
        with pytest.raises(ValueError, match="seals 0x0, expected 0x17"):
            map_read_only(fd)
    finally:
        os.close(fd)
