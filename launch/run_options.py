"""What a user asked of `rankmesh run`."""

from __future__ import annotations

from dataclasses import dataclass

from ..comm.shard import Shards
from ..worker.mindir.crypto import Decryption
from .job import RunJob


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asked for; None where nothing was said."""

    model: str
    ranks: int | None = None
    rank_table: str | None = None
    inputs: str | None = None
    expect: str | None = None
    rtol: float | None = None
    atol: float | None = None
    save: str | None = None
    repeat: int = 0
    device: str | None = None
    collectives: str | None = None
    oversubscribe: bool = False
    verbose: bool = False
    decryption: Decryption | None = None
    config: str | None = None
    allow_equal_shards: bool = False

    def job(self, shards: Shards, device: str, threads: int, spin: bool) -> RunJob:
        """What each rank is told, once device and threads are chosen."""
        return RunJob(shards.pattern, shards.count, device, self.collectives, self.inputs, self.expect, self.save,
                      self.rtol, self.atol, self.repeat, threads, spin, self.decryption, self.config,
                      self.allow_equal_shards)
