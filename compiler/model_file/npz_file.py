"""NPZ files: their arrays, each checked and bounded by its header before it is expanded."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO

from numpy.lib import format as npy

from ...comm.arrays import Array
from ...comm.errors import InputError
from ...comm.host.regular_file import open_regular

DENSEST = 20
"""The largest ratio of an array to its compressed size. Real weights and activations stay below 3;
deflate reaches 1032.
"""
_SMALL = 64 << 20
"""Bytes that any array may have, however well it compresses, as an array of zeros does."""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_FAULTS = (
    OSError,
    ValueError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    RuntimeError,
    NotImplementedError,
)


class NpzFile:
    """An NPZ file, open for reading; `names` are those of its arrays."""

    def __init__(self, path: str, size: int, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._size = size
        self._archive = archive
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        self.names = list(self._members)

    @classmethod
    @contextmanager
    def open(cls, path: str) -> Iterator[NpzFile]:
        """Open a file; InputError names it where it is missing or is not an NPZ, even later in the
        block.
        """
        try:
            with open_regular(path) as file:
                _check_begin(path, file.read(8))
                with zipfile.ZipFile(file) as archive:
                    yield cls(path, os.fstat(file.fileno()).st_size, archive)
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file.") from error
        except InputError:
            raise
        except _FAULTS as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                f"{path}: not a readable NPZ file: {reason}. Write it with numpy.savez."
            ) from error

    @property
    def packed(self) -> int:
        """The bytes of all arrays in the file."""
        return sum(member.compress_size for member in self._members.values())

    @property
    def expanded(self) -> int:
        """The bytes of all arrays once expanded, as the file states them."""
        return sum(member.file_size for member in self._members.values())

    def read(self, name: str, needed: int = 0) -> Array:
        """Read one array, which takes about `needed` bytes; InputError where it has far more than
        these, and far more than its bytes in the file.
        """
        member = self._members[name]
        with self._archive.open(member) as stream:
            self._check_size(name, member, _declared(name, stream), needed)
        with self._archive.open(member) as stream:
            array: Array = npy.read_array(stream, allow_pickle=False)
        return array

    def _check_size(self, name: str, member: zipfile.ZipInfo, declared: int, needed: int) -> None:
        if declared > member.file_size or member.compress_size > self._size:
            raise ValueError(f"'{name}' is shorter than its header states")
        if member.file_size > max(needed, _SMALL, DENSEST * member.compress_size):
            raise InputError(
                f"{self._path}: '{name}' would expand from {member.compress_size} to "
                f"{member.file_size} bytes, expected at most {max(needed, _SMALL)}: refused, as it "
                "may be meant to fill the memory. Write it uncompressed, with numpy.savez."
            )


def _check_begin(path: str, begin: bytes) -> None:
    """Refuse other files than archives, some of which numpy would take for pickles."""
    if begin.startswith(b"\x93NUMPY"):
        raise InputError(f"{path}: is a single array, expected an NPZ: write it with numpy.savez.")
    if not begin.startswith(b"PK"):
        raise InputError(
            f"{path}: is not an NPZ file: it begins with {begin!r}. Write it with numpy.savez."
        )


def _declared(name: str, stream: IO[bytes]) -> int:
    """The bytes of an array, by its header."""
    try:
        shape, _, dtype = _HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:  # numpy parses headers as Python: many errors
        raise ValueError(f"'{name}' is not an array") from error
    if dtype.hasobject:
        raise ValueError(f"'{name}' holds Python objects, which are never unpickled")
    if any(
        type(size) is not int for size in shape
    ):  # numpy takes True for a number here, and for none when it reads
        raise ValueError(f"'{name}' has the impossible shape {list(shape)}")
    return prod(shape) * dtype.itemsize
