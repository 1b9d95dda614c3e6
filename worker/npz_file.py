"""Arrays in an NPZ file: what each says it is gets known, and bounded, before any of it is expanded."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO, Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from ..comm.errors import InputError
from ..comm.regular_file import open_regular

Array = NDArray[Any]
_SUFFIX = ".npy"
DENSEST = 20
"""Times its compressed size that an array may have: real weights and activations stay below 3, deflate reaches 1032."""
_SMALL = 64 << 20
"""Bytes that any array may have, however well it compresses, as one of zeros does."""
_BEGIN = 8
_ARCHIVE, _LONE_ARRAY = b"PK", b"\x93NUMPY"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_FAULTS = (OSError, ValueError, zipfile.BadZipFile, EOFError, zlib.error, RuntimeError, NotImplementedError)


class NpzFile:
    """An NPZ file, open for reading: `names` are those of its arrays."""

    def __init__(self, path: str, size: int, archive: zipfile.ZipFile) -> None:
        self._path, self._size, self._archive = path, size, archive
        self._members = {info.filename.removesuffix(_SUFFIX): info for info in archive.infolist()}
        self.names = list(self._members)

    @classmethod
    @contextmanager
    def open(cls, path: str) -> Iterator[NpzFile]:
        """Open a file; InputError names it where it is missing, and where it or what is read of it is no NPZ."""
        try:
            with open_regular(path) as file:
                _check_begin(path, file.read(_BEGIN))
                with zipfile.ZipFile(file) as archive:
                    yield cls(path, os.fstat(file.fileno()).st_size, archive)
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file.") from error
        except InputError:
            raise
        except _FAULTS as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{path}: not a readable NPZ file: {reason}. Write it with numpy.savez.") from error

    @property
    def packed(self) -> int:
        """How many bytes all arrays have in the file."""
        return sum(member.compress_size for member in self._members.values())

    @property
    def expanded(self) -> int:
        """How many bytes all arrays say that they have."""
        return sum(member.file_size for member in self._members.values())

    def read(self, name: str, needed: int = 0) -> Array:
        """One array, of `needed` bytes or so; InputError where it has far more, and what is in the file is far less."""
        member = self._members[name]
        with self._archive.open(member) as stream:
            self._check_size(name, member, _declared(name, stream), needed)
        with self._archive.open(member) as stream:
            array: Array = npy.read_array(stream, allow_pickle=False)
        return array

    def _check_size(self, name: str, member: zipfile.ZipInfo, declared: int, needed: int) -> None:
        if declared > member.file_size or member.compress_size > self._size:
            raise ValueError(f"'{name}' is not as long as it says")
        if member.file_size > max(needed, _SMALL, DENSEST * member.compress_size):
            raise InputError(f"{self._path}: '{name}' would expand from {member.compress_size} to {member.file_size} "
                             f"bytes, expected at most {max(needed, _SMALL)}: refused, as it may be meant to fill the "
                             f"memory. Write it uncompressed, with numpy.savez.")


def _check_begin(path: str, begin: bytes) -> None:
    """Refuse what is no archive, of which numpy would take some for a pickle."""
    if begin.startswith(_LONE_ARRAY):
        raise InputError(f"{path}: is a single array, expected an NPZ: write it with numpy.savez.")
    if not begin.startswith(_ARCHIVE):
        raise InputError(f"{path}: is no NPZ file, it begins with {begin!r}. Write it with numpy.savez.")


def _declared(name: str, stream: IO[bytes]) -> int:
    """How many bytes an array has by its header."""
    try:
        shape, _, dtype = _HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:  # numpy parses headers as Python, which fails in many ways
        raise ValueError(f"'{name}' is no array") from error
    if dtype.hasobject:
        raise ValueError(f"'{name}' holds Python objects, which are never unpickled")
    if any(type(size) is not int for size in shape):  # numpy takes True for a number here, and for none when it reads
        raise ValueError(f"'{name}' has the impossible shape {list(shape)}")
    return prod(shape) * dtype.itemsize
