"""File offer: sends one host what it wants of a model's files, and tells how far it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

from ..host.regular_file import open_regular
from .messages import Chunk, Offer, Want, Withheld
from .model_files import ListedFiles, LocalFile

Told = Callable[[str, int, int], None]
"""Told of progress: what is sent, the bytes that the host has now, and all bytes."""


class FileOffer:
    """The files of one model for one host. For one thread; `close` closes the file in use."""

    def __init__(self, label: str, model: ListedFiles, told: Told | None = None) -> None:
        """`label` is what progress and errors call the model."""
        self.message = Offer(label, model.pattern, tuple(one.file for one in model.files))
        self._files = {one.file.digest: one for one in model.files}
        self._before: dict[str, int] = {}
        """Bytes of the files that a host has before it wants the one of that digest."""
        before = 0
        for digest, one in self._files.items():
            self._before[digest] = before
            before += one.file.size
        self._told = told
        self._open: tuple[str, BinaryIO] | None = None

    def reply(self, want: Want) -> Chunk | Withheld:
        """The bytes that a host wants; `Withheld` where they cannot be read as they were offered.

        Only files that were offered are read.
        """
        one = self._files.get(want.digest)
        if one is None:
            return Withheld(want.digest, "no file of this digest was offered.")
        try:
            data = self._read(one, want)
        except OSError as error:
            return Withheld(want.digest, f"{one.stamp.path}: cannot be read: {error.strerror}.")
        if data is None:
            text = f"{one.stamp.path}: changed after it was offered. Start the model again."
            return Withheld(want.digest, text)
        if self._told:
            done = self._before[want.digest] + want.offset + len(data)
            self._told(self.message.label, done, self.message.size)
        return Chunk(want.digest, want.offset, data)

    def close(self) -> None:
        """Close the file in use; the offer may go on afterwards."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _read(self, one: LocalFile, want: Want) -> bytes | None:
        """The wanted bytes; None where the file is not what it was, or has no such bytes."""
        if self._open is None or self._open[0] != want.digest:
            self.close()
            self._open = want.digest, open_regular(one.stamp.path)
        if not one.stamp.holds:
            return None
        fd = self._open[1].fileno()
        data = os.pread(fd, want.length, want.offset)
        return data if len(data) == want.length else None
