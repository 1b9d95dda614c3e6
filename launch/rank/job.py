"""Messages of `rankmesh run`: the job that every rank gets, and its report."""

from __future__ import annotations

import msgspec

from ...comm.collectives.registry import BackendChoice
from ...worker.runtime.program_spec import ProgramSpec


class RunJob(msgspec.Struct, frozen=True):
    """One run, the same for all ranks; file names may hold `{rank}`.

    `spec` has the pattern of the shards as its path, of which there are `count`.
    """

    spec: ProgramSpec
    count: int
    collectives: str | None
    inputs: str | None
    expect: str | None
    save: str | None
    rtol: float | None
    atol: float | None
    repeat: int

    def with_threads(self, threads: int) -> RunJob:
        """The same for a rank with this number of threads."""
        executor = msgspec.structs.replace(self.spec.executor, threads=threads)
        return msgspec.structs.replace(
            self, spec=msgspec.structs.replace(self.spec, executor=executor)
        )


class OutputReport(msgspec.Struct, frozen=True):
    """One output of one rank; `error` says why it does not match, empty where it does or is not
    compared.

    Sizes are in bytes and elements; `first` are the first values as text; distances are as in
    compare.py. Without a result (a pipeline's earlier stage, a Reduce elsewhere than at its root)
    only the name is meant.
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
    """The report of one rank: its outputs, and its times per timed request.

    `seconds` are whole requests, `collective_seconds` the part inside collectives. `exchanges` is
    the number of collectives in the shard, and `choice` what carries them, with the reason.
    `remarks` are on inputs that were not given.
    """

    rank: int
    path: str
    outputs: tuple[OutputReport, ...]
    seconds: tuple[float, ...]
    collective_seconds: tuple[float, ...]
    choice: BackendChoice
    saved: str
    exchanges: int = 1
    remarks: tuple[str, ...] = ()
