"""The Python orchestration API: a model on supervised ranks, any number of requests, from any thread."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from ..comm.errors import UsageError
from ..comm.placement import RankSpec, core_shares
from ..comm.rank import Rank
from ..comm.serving.orders import ServeJob
from ..comm.serving.tensor_arena import OwnedArena
from ..comm.shard import find_shards
from .buffers import Buffers
from .dispatch import Dispatcher
from .group import Group
from .limits import Limits
from .loop import Loop

Array = NDArray[Any]
_DEFAULT = object()


class Orchestrator:
    """Ranks that run one model; a context manager that leaves no process, descriptor or segment behind."""

    def __init__(self, model: str, ranks: int | None = None, replicas: int = 1, limits: Limits | None = None) -> None:
        """Start the ranks and wait until all are ready."""
        self._limits = limits or Limits()
        shards = find_shards(model)
        world_size = ranks or shards.count
        shards.require(world_size)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._arena = OwnedArena(self._limits.leased, memory)
        self._loop = Loop()
        self._dispatcher = Dispatcher(self._limits, self._arena, self._loop)
        cores = sorted(os.sched_getaffinity(0))
        shares = core_shares(cores, world_size * replicas)
        for index in range(replicas):
            specs = [RankSpec(Rank(r, world_size, r, world_size, socket.gethostname(), 0), share, max(1, len(share)))
                     for r, share in enumerate(shares[index * world_size:(index + 1) * world_size])]
            job = ServeJob(shards.pattern, shards.count, "", None, 1, world_size * replicas <= len(cores), -1,
                           self._arena.fd, -1, os.getpid(), [])
            self._dispatcher.groups.append(Group(index, specs, job, self._limits, self._arena, self._loop,
                                                 self._dispatcher))
        self._loop.start()
        for group in self._dispatcher.groups:
            self._loop.call_soon(group.start)
        self._dispatcher.started.wait()
        if self._dispatcher.failure:
            self.close()
            raise self._dispatcher.failure

    def predict(self, inputs: Any, *, timeout: Any = _DEFAULT, priority: int = 0, results: str = "once") -> Any:
        """Run one request and wait for its outputs."""
        return self.submit(inputs, timeout=timeout, priority=priority, results=results).result()

    def submit(self, inputs: Any, *, timeout: Any = _DEFAULT, priority: int = 0, results: str = "once") -> Future[Any]:
        """Queue one request."""
        specs = self._dispatcher.inputs
        assert specs is not None
        prepared = inputs.taken() if isinstance(inputs, Buffers) else specs.copied(inputs)
        seconds = self._limits.timeout or None if timeout is _DEFAULT else timeout
        return self._dispatcher.submit(prepared, seconds, priority, results == "all")

    async def predict_async(self, inputs: Any, **options: Any) -> Any:
        """As `predict`, for asyncio."""
        return await asyncio.wrap_future(self.submit(inputs, **options))

    def buffers(self, **shapes: Sequence[int]) -> Buffers:
        """Shared memory to write a request's inputs into, in place."""
        assert self._dispatcher.inputs is not None
        return Buffers(self._dispatcher.inputs, shapes)

    def close(self) -> None:
        """End everything."""
        self._dispatcher.give_up(UsageError("the orchestrator was closed before the request was answered."))
        for group in self._dispatcher.groups:
            self._loop.call_soon(group.stop)
        self._loop.stop()
        self._loop.join()
        self._arena.close()

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
