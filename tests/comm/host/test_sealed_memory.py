"""Sealed memory: its maker writes it, and no receiver of its descriptor does."""

from __future__ import annotations

import mmap
import os
from contextlib import nullcontext

import pytest

from rankmesh.comm.host.sealed_memory import (
    FIXED,
    GROWING,
    SealedMemory,
    create_sealed,
    map_read_only,
)

pytestmark = pytest.mark.pure


@pytest.fixture
def file() -> SealedMemory:
    made = SealedMemory("test", 5000)
    made.bytes[:5] = b"hello"
    return made


def test_a_reader_sees_what_the_maker_writes(file: SealedMemory) -> None:
    view = map_read_only(file.fd)
    assert bytes(view[:5]) == b"hello"
    file.bytes[0:1] = b"J"
    assert bytes(view[:5]) == b"Jello"
    assert len(view) == file.size == 5000


def test_a_reader_cannot_write(file: SealedMemory) -> None:
    view = map_read_only(file.fd)
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(file.fd, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(file.fd, 4096)


@pytest.mark.parametrize(
    "attack",
    [
        lambda fd: os.pwrite(fd, b"x", 0),
        lambda fd: mmap.mmap(fd, 4096),
        lambda fd: os.ftruncate(fd, 0),
        lambda fd: os.ftruncate(fd, 1 << 20),
    ],
)
def test_opening_it_again_for_writing_does_not_help(file: SealedMemory, attack) -> None:
    again = os.open(f"/proc/self/fd/{file.fd}", os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            attack(again)
    finally:
        os.close(again)
    assert bytes(file.bytes[:5]) == b"hello"


def test_a_mapping_outlives_the_descriptor(file: SealedMemory) -> None:
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


@pytest.mark.parametrize(("seals", "grows"), [(GROWING, True), (FIXED, False)])
def test_a_file_that_processes_share_never_shrinks(seals: int, grows: bool) -> None:
    fd = create_sealed("test", 8192, seals)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 4096)
        with nullcontext() if grows else pytest.raises(PermissionError):
            os.ftruncate(fd, 16384)
        assert os.fstat(fd).st_size == (16384 if grows else 8192)
    finally:
        os.close(fd)
