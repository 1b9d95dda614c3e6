"""Stamp of a file: tells when its path leads to another file, or the file has other bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from .own_folder import path_steps


class Link(msgspec.Struct, frozen=True):
    """A link on the way to a file, with its target and its time in ns: swapping it back shows."""

    path: str
    target: str
    changed: int


class Stamp(msgspec.Struct, frozen=True):
    """A file as its path leads to it: the links on the way, its size in bytes, its times in ns."""

    path: str
    links: tuple[Link, ...]
    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: str) -> Stamp:
        """The stamp of the file to which `path` leads now; OSError where there is none."""
        path = str(Path(path).absolute())  # with its `..`, which lead elsewhere behind a link
        links, status = tuple(_links(path)), os.stat(path)
        return cls(
            path,
            links,
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    @property
    def holds(self) -> bool:
        """Whether the path still leads to the same bytes."""
        try:
            return Stamp.of(self.path) == self
        except OSError:
            return False

    @property
    def youngest(self) -> int:
        """The last change of the file or of a link to it, in nanoseconds since the epoch."""
        return max(self.modified, self.changed, *(link.changed for link in self.links))


Files: TypeAlias = Mapping[str, Stamp]
"""The files of one model by name, as they were before they were read; its own is ""."""

NO_FILES: Files = {}


def _links(path: str) -> Iterator[Link]:
    with suppress(OSError):  # links of /proc lead further than they say
        for step in path_steps(path):
            if step.target:
                yield Link(step.path, step.target, step.status.st_ctime_ns)
