"""Shard trial: a process that loads and runs shards as ranks do, before these are kept.

Slicing asks for it, and imports nothing of what ranks are. The process forks the ranks: it has
their imports, and makes them while shards are still written.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from types import TracebackType
from typing import Literal

import msgspec

from .. import errors
from ..decoding import guarded
from ..host.process_end import EndOfProcess
from .rank_process import python

_MODULE = "rankmesh.launch.slicing.shard_trial_process"
Extent = Literal["read", "load", "run"]


class TrialRequest(msgspec.Struct, frozen=True):
    """Shards, by the pattern of their files, and what is done with those of all ranks.

    They are read; or their segments are loaded as well, alone; or all ranks run together, with the
    arrays `in_0`, `in_1` and so on of the NPZ file `inputs`. Where it `compares`, that file has the
    outputs to expect as `out_0` and so on.
    """

    pattern: str
    ranks: int
    extent: Extent
    inputs: str = ""
    compares: bool = False


class TrialAnswer(msgspec.Struct, frozen=True):
    """The largest relative error of an output; or an error, by its class and text.

    `differs` names an output that has other elements, another shape or type than is expected.
    With `short_of_memory` a rank found too little memory.
    """

    largest: float = 0.0
    differs: str = ""
    error: str = ""
    text: str = ""
    short_of_memory: bool = False


decode_request = guarded(msgspec.json.Decoder(TrialRequest))
_decode_answer = guarded(msgspec.json.Decoder(TrialAnswer))


class ShardTrial:
    """The process of a trial; a context manager that starts it and leaves none behind."""

    def __enter__(self) -> ShardTrial:
        # numpy of ranks computes in one thread, as it does under a supervisor
        environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
        environment.pop("RANKMESH_EXECUTOR", None)  # whatever loads them later, shards are alike
        self._end = EndOfProcess()
        self._process = subprocess.Popen(
            python(_MODULE, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, request: TrialRequest) -> TrialAnswer:
        """The answer to a request; ModelError where the process ends without one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # then there is no answer
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
        try:
            return _decode_answer(self._process.stdout.readline())
        except msgspec.DecodeError as error:
            ended = self._end.told(self._process.wait())
            raise errors.ModelError(
                f"{request.pattern}: the process that loads the shards {ended}, before it had an "
                "answer. No shard was written."
            ) from error
