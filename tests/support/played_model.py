"""Played model: real scheduler, dispatcher, orders and rings, whose ranks a test plays itself.

Time is virtual, and no process runs. The model doubles its input `x` of rows of two numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import numpy as np
from simulation.virtual_time import VirtualClock, VirtualLoop

from rankmesh.comm.errors import RankDied
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.caller_slots import NO_SLOT, CallerSlots
from rankmesh.comm.serving.orders import AS_ORDERED, Answer, ModelReport, Run, TensorRef
from rankmesh.comm.serving.ring import Ring
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.orchestrator.requests.request import AnyResult, Request
from rankmesh.orchestrator.scheduling.batch import Batch
from rankmesh.orchestrator.scheduling.client import ModelClient
from rankmesh.orchestrator.scheduling.dispatcher import Dispatcher, ReplicaFailure
from rankmesh.orchestrator.scheduling.replica_table import FinishedOrder, UnfinishedOrder

COLUMNS = 2
_MEMORY = 1 << 26
_SPECS = (TensorSpec("x", "float32", (-1, COLUMNS)),), (TensorSpec("y", "float32", (-1, COLUMNS)),)
_DEPTH = 16


class PlayedRequest(Request):
    """A request that counts how often it has ended."""

    def __init__(self, value: int, rows: int) -> None:
        self.given = np.full((rows, COLUMNS), value, np.float32)
        self.ends = 0
        self.answer: AnyResult | None = None
        self.error: BaseException | None = None

    @property
    def right(self) -> bool:
        """Whether its answer is that of the model."""
        return isinstance(self.answer, dict) and np.array_equal(self.answer["y"], 2 * self.given)

    def set_result(self, result: AnyResult) -> None:
        """See Request.set_result."""
        super().set_result(result)
        self.answer, self.ends = result, self.ends + 1

    def set_exception(self, error: BaseException) -> None:
        """See Request.set_exception."""
        super().set_exception(error)
        self.error, self.ends = error, self.ends + 1


class PlayedReplica:
    """One replica: the ring of its orders, and what its ranks have taken of it."""

    def __init__(self, index: int, ranks: int, ahead: bool, model: PlayedModel) -> None:
        self.index, self.ranks, self._ahead, self._model = index, ranks, ahead, model
        self.fd, self.bell = -1, os.eventfd(0, os.EFD_NONBLOCK)
        self.start()

    def start(self) -> None:
        """New ranks are ready."""
        self.close()
        model = self._model
        self.fd = Ring.create(self.ranks, _DEPTH)
        self.ring, *self.rings = (
            Ring(self.fd, self.bell, model.slots) for _ in range(self.ranks + 1)
        )
        self._next, self.taken = [0] * self.ranks, [{} for _ in range(self.ranks)]
        reports = [
            ModelReport("played.onnx", *_SPECS, results=(0,) if rank == 0 else ())
            for rank in range(self.ranks)
        ]
        model.dispatcher.scheduler.starting(self.index)
        model.dispatcher.replica_ready(self.index, self.ring, reports, self._ahead)

    def close(self) -> None:
        """Close the ring."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def take(self, rank: int = 0) -> int | None:
        """Have a rank begin its next order, if there is one; its number."""
        while self._next[rank] < self.ring.given:
            number = self._next[rank]
            self._next[rank] += 1
            order = self.rings[rank].take(number, rank)
            if order is not None:
                self.taken[rank][number] = order
                return number
        return None

    def answer(self, rank: int = 0, error: str = "") -> bool:
        """Have a rank answer the oldest order that it has begun; whether there was one."""
        if not self.taken[rank]:
            return False
        number = next(iter(self.taken[rank]))
        order = self.taken[rank].pop(number)
        answer = Answer([], error=error, text="played") if error else self._run(order, rank)
        self.rings[rank].reply(number, rank, answer)
        return True

    def look(self) -> None:
        """See AnswersRanks.look: what Replica does with the news of its ranks."""
        scheduler, dispatcher = self._model.dispatcher.scheduler, self._model.dispatcher
        while isinstance(found := scheduler.review(self.index), FinishedOrder):
            dispatcher.batches_answered(self.index, [found.order])
        if isinstance(found, UnfinishedOrder) and len(found.answers) == self.ranks:
            scheduler.remove(self.index, found.order)
            self.ring.release(found.order.number)
            dispatcher.batch_refused(self.index, found.order, RankDied("played"))
            self.look()

    def fail(self) -> None:
        """The ranks die: the requests that they had begun may be the cause."""
        found = self._model.dispatcher.scheduler.withdraw(self.index)
        batches = [one for one in found.orders if isinstance(one, Batch)]
        undone = [request for batch in batches for request in batch.requests]
        guilty = [
            request
            for batch in batches
            for request in batch.requests
            if any(batch.number in taken for taken in self.taken)
        ]
        error = RankDied(f"replica {self.index} died")
        self._model.dispatcher.replica_failed(
            ReplicaFailure(self.index, error, undone, guilty, state_lost=False)
        )

    def _run(self, order: Run, rank: int) -> Answer:
        part = order.part(rank)
        if not part.positions:
            return AS_ORDERED
        (given,) = order.inputs
        dtype, size = np.dtype(np.float32), 4 * prod(given.shape)
        view = self._model.arena.view
        x = view(given.offset, dtype, given.shape, size)
        view(part.room.offset, dtype, given.shape, size)[...] = 2 * x
        return Answer([TensorRef(part.room.offset, given.shape)])


class PlayedModel:
    """The scheduler of one model with its replicas, and the requests to it."""

    def __init__(
        self,
        clock: VirtualClock,
        settings: ModelSettings,
        replicas: int = 1,
        ranks: int = 1,
        ahead: bool = False,
    ) -> None:
        self.clock, self.loop = clock, VirtualLoop(clock)
        self.arena = OwnedArena(_MEMORY, _MEMORY)
        self.slots = CallerSlots(CallerSlots.create(), spare=False)
        self.dispatcher = Dispatcher(settings, replicas, ranks, self.arena, self.slots, self.loop)
        self.replicas = [PlayedReplica(index, ranks, ahead, self) for index in range(replicas)]
        interface = self.dispatcher.wait_started()
        self.client = ModelClient(interface, self.dispatcher, self.replicas, self.slots, self.loop)
        self.requests: list[PlayedRequest] = []

    @property
    def scheduler(self) -> object:
        """The dispatcher's."""
        return self.dispatcher.scheduler

    def submit(
        self, rows: int = 1, timeout: float | None = None, priority: int = 0
    ) -> PlayedRequest:
        """Send a request. Raises what ModelClient.submit_at raises."""
        request = PlayedRequest(len(self.requests) + 1, rows)
        self.client.submit_at(NO_SLOT, request, {"x": request.given}, timeout, priority)
        self.requests.append(request)
        return request

    def run(self, replica: int = 0) -> int:
        """Have a replica carry out all that it is given; how many orders."""
        played, count = self.replicas[replica], 0
        while any([played.take(rank) is not None for rank in range(played.ranks)]):
            for rank in range(played.ranks):
                played.answer(rank)
            played.look()
            count += 1
        return count

    def wait(self, seconds: float) -> None:
        """Let time pass, with all that is due meanwhile."""
        until = self.clock.now + seconds
        done = []
        self.loop.call_later(seconds, lambda: done.append(True))
        self.loop.turn_until(lambda: bool(done), until + 1.0)

    def close(self) -> None:
        """Free all memory."""
        for replica in self.replicas:
            replica.close()
            os.close(replica.bell)
        self.arena.close()
        self.slots.close()
        self.loop.close()


@contextmanager
def played(
    settings: ModelSettings | None = None, replicas: int = 1, ranks: int = 1, ahead: bool = False
) -> Iterator[PlayedModel]:
    """A model that takes requests; until the end of this context, time is virtual."""
    clock = VirtualClock()
    with clock.running():
        model = PlayedModel(clock, settings or ModelSettings("m.onnx"), replicas, ranks, ahead)
        try:
            yield model
        finally:
            model.close()
