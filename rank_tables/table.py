"""The rank table: which rank runs on which device of which server."""

from __future__ import annotations

import os
import stat

import msgspec

from . import write
from .check import check
from .draft import Draft, usual_places
from .fault import RankTableFault, raise_all
from .server import Device, Server
from .super_pod import SuperPod
from .versions import MAX_BYTES, checked_draft


class RankTable(msgspec.Struct, frozen=True):
    """A complete, consistent rank table; making an inconsistent one raises RankTableFault."""

    servers: tuple[Server, ...]
    super_pods: tuple[SuperPod, ...] = ()

    def __post_init__(self) -> None:
        """Refuse servers that cannot be one job; paths are those of the file that `to_json` would write."""
        raise_all(check(Draft("version 1.2", self.servers, usual_places(self.servers), self.super_pods)))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> RankTable:
        """Read and check the table in a file of any version."""
        return cls.parse(read_bytes(path), str(path))

    @classmethod
    def parse(cls, data: bytes, source: str = "rank table") -> RankTable:
        """Parse and check a table of any version; `source` names it in messages."""
        try:
            draft = checked_draft(data)
        except RankTableFault as fault:
            raise fault.in_source(source) from fault.__cause__
        return cls(draft.servers, draft.super_pods)

    @property
    def world_size(self) -> int:
        """How many ranks the job has."""
        return sum(len(server.devices) for server in self.servers)

    def device_of(self, rank: int) -> Device:
        """The device that `rank` runs on."""
        return next(device for device in self.server_of(rank).devices if device.rank == rank)

    def server_of(self, rank: int) -> Server:
        """The server that `rank` runs on."""
        for server in self.servers:
            if rank in server.ranks:
                return server
        raise RankTableFault(f"rank {rank} is not in the table, which has ranks 0 to {self.world_size - 1}")

    def to_json(self, version: str | None = None) -> bytes:
        """The table as a file of version "1.0" or "1.2"; by default the lowest that loses nothing."""
        return write.to_json(self.servers, self.super_pods, version)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a rank table file, as far as one can be long; RankTableFault names the file.

    What is no regular file is refused at once: a pipe would have to be waited for.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("is no regular file")
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RankTableFault(f"cannot be read: {reason}", source=str(path)) from error


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
