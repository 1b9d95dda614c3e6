"""What `rankmesh run` asks of every rank, and what each reports back."""

from __future__ import annotations

import msgspec

from ..worker.mindir.crypto import Decryption


class RunJob(msgspec.Struct, frozen=True):
    """One run, the same for all ranks; file names may hold `{rank}`."""

    pattern: str
    count: int
    device: str
    collectives: str | None
    inputs: str | None
    expect: str | None
    save: str | None
    rtol: float | None
    atol: float | None
    repeat: int
    threads: int
    spin: bool
    decryption: Decryption | None = None
    config: str | None = None
    allow_equal_shards: bool = False


class OutputReport(msgspec.Struct, frozen=True):
    """One output of one rank; `error` says why it does not match, empty where it does or is not compared.

    Sizes are in bytes and elements; `first` are the first values as text; distances are as in compare.py. Without a
    result (a pipeline's earlier stage, a Reduce elsewhere than at its root) only the name is meant.
    """

    name: str
    has_result: bool
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    elements: int
    first: tuple[str, ...]
    compared: bool
    max_absolute: float | None
    max_relative: float | None
    error: str


class RankReport(msgspec.Struct, frozen=True):
    """What one rank did: its outputs, and per timed request the seconds in all and inside collectives.

    `exchanges` is how many collectives its shard has.
    """

    rank: int
    path: str
    outputs: tuple[OutputReport, ...]
    seconds: tuple[float, ...]
    collective_seconds: tuple[float, ...]
    collectives: str
    saved: str
    exchanges: int = 1
