"""Engine of one replica: takes sequences from the queue and runs their steps, one after the other.

It is a thread of the orchestrator, which waits at a caller's slot: ranks notify it of answers, and
others of new sequences and of ranks that fail.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence as Items
from contextlib import suppress
from operator import gt

import numpy as np

from ...comm.errors import Poisoned, RankmeshError
from ...comm.request_memory.owned_arena import OwnedArena, Region
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import InvalidRankData
from ...comm.serving.steps import DecodedTokens, DecoderReport
from ..config.generation_settings import GenerationSettings
from ..event_loop.loop import EventLoopThread
from ..replica.replica import Replica
from ..requests.replies import copy_error, wrap_error
from ..scheduling.batch import StepOrder
from ..scheduling.replica_table import ReplicaCondition
from .decoder_dispatcher import DecoderDispatcher
from .sequence import Sequence
from .step_orders import step_order
from .step_planner import PlannedRow, plan_step

_MOST_FAILURES = 4
"""Steps of a sequence in which ranks have died, one after the other, until it is given up; in the
last ones it was alone.
"""


class DecoderEngine(threading.Thread):
    """The sequences of one replica, by slot."""

    def __init__(
        self,
        index: int,
        dispatcher: DecoderDispatcher,
        settings: GenerationSettings,
        arena: OwnedArena,
        slots: CallerSlots,
        loop: EventLoopThread,
        replica: Replica,
    ) -> None:
        super().__init__(name=f"rankmesh-decoder-{index}", daemon=True)
        self.running: dict[int, Sequence] = {}
        self.steps = 0
        self.generated = 0
        self._index = index
        self._dispatcher = dispatcher
        self._table = dispatcher.scheduler
        self._settings = settings
        self._arena = arena
        self._slots = slots
        self._loop = loop
        self._replica = replica
        self._seat = slots.take()
        self._rooms: list[Region] = []
        self._parity = 0
        self._ended = False

    def wake(self) -> None:
        """Have the engine look for news; from any thread."""
        self._slots.announce(self._seat)

    def end(self) -> None:
        """End the thread, and wait for it."""
        self._ended = True
        self.wake()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Run steps as long as there are sequences and ranks."""
        while not self._ended:
            try:
                went_on = self._turn()
            except Exception as error:  # of any class: callers would wait for ever
                self._dispatcher.journal.say(logging.ERROR, "a step has failed: %r", error)
                self._refuse(wrap_error(error))
                went_on = True
            if not went_on:
                self._slots.wait(self._seat)
        self._slots.leave(self._seat)

    def _turn(self) -> bool:
        """Run one step; whether there was one that came to its end."""
        self._drop_ended()
        self._admit()
        rows = plan_step(self.running.values(), self._settings)
        return bool(rows) and self._run_step(rows)

    @property
    def _ready(self) -> bool:
        return self._table.replicas[self._index].condition is ReplicaCondition.READY

    @property
    def _reports(self) -> list[DecoderReport]:
        """The reports of the ranks; empty while there are none."""
        reports = self._table.replicas[self._index].reports
        return [one.decoder for one in reports if one.decoder is not None]

    def _admit(self) -> None:
        """Take sequences that wait, as many as the ranks have slots for."""
        if not self._ready:
            return
        room = min((one.sequences for one in self._reports), default=0)
        free = [slot for slot in range(room) if slot not in self.running]
        for slot in free:
            sequence = self._dispatcher.queue.take()
            if sequence is None:
                return
            sequence.slot = slot
            self.running[slot] = sequence

    def _drop_ended(self) -> None:
        """Free the slots of sequences that are over."""
        for slot, sequence in [*self.running.items()]:
            if sequence.over:
                del self.running[slot]

    def _run_step(self, rows: list[PlannedRow]) -> bool:
        """Give the ranks a step and take its results; whether it came to its end."""
        wanted = _wanted(rows)
        logits = sum(not row.sequence.settings.greedy for row in wanted)
        rooms = self._made_rooms(len(wanted), logits)
        step = step_order(self.running, rows, wanted, logits, self._parity, rooms)
        order = self._table.give(self._index, step, self._seat)
        if order is None:
            self._withdraw()
            return False
        self._parity = 1 - self._parity
        for row in rows:
            row.sequence.failed_steps += 1
        if not self._await(order):
            return not self._ended
        self.steps += 1
        for row in rows:
            row.sequence.length += row.count
            row.sequence.failed_steps = 0
        try:
            self._take_results(wanted, logits)
        except InvalidRankData as fault:
            self._accuse(fault)
        return True

    def _await(self, order: StepOrder) -> bool:
        """Wait for the ranks; False where they failed, or refused the step."""
        while not order.answered:
            self._slots.wait(self._seat)
            if self._ended:
                return False
            with suppress(InvalidRankData):  # the loop's thread finds it as well
                self._table.collect(self._index)
            if order.answered:
                break
            error = self._dispatcher.refused.pop(self._index, None)
            if error is not None:
                self._refuse(error)
                return False
            if self._table.oldest(self._index) is not order:
                if order.answered:
                    break
                self._withdraw()
                return False
            self._loop.call_soon(self._replica.look)
        return True

    def _take_results(self, wanted: list[PlannedRow], logits: int) -> None:
        """Give each sequence its next token."""
        whole = self._reports[0].columns == self._reports[0].vocabulary
        ranks = 1 if whole else len(self._rooms)
        found = [self._results(rank, len(wanted), logits) for rank in range(ranks)]
        best = np.stack([one.best for one in found])
        tokens = np.stack([one.tokens for one in found])
        chosen = tokens[best.argmax(0), np.arange(len(wanted))] if wanted else []
        self.generated += len(wanted)
        for at, row in enumerate(wanted):
            if at < logits:
                row.sequence.choose(np.concatenate([one.logits[at] for one in found]))
            else:
                row.sequence.take(int(chosen[at]))

    def _results(self, rank: int, wanted: int, logits: int) -> DecodedTokens:
        """The results of one rank. Raises InvalidRankData for tokens that are none."""
        report = self._reports[rank]
        room = self._rooms[rank]
        found = DecodedTokens.at(self._arena, room.offset, wanted, logits, report.columns)
        inside = (found.tokens >= 0) & (found.tokens < report.vocabulary)
        if not inside.all():
            raise InvalidRankData(rank, "answered a step with tokens that its vocabulary lacks")
        return found

    def _made_rooms(self, wanted: int, logits: int) -> tuple[int, ...]:
        """Memory for the results of each rank."""
        sizes = [DecodedTokens.size(wanted, logits, one.columns) for one in self._reports]
        held = [room.size for room in self._rooms]
        if len(held) != len(sizes) or any(map(gt, sizes, held)):
            self._rooms = [self._arena.allocate(max(size, 4096)) for size in sizes]
        return tuple(room.offset for room in self._rooms)

    def _withdraw(self) -> None:
        """Give all sequences back to the queue: the ranks are gone."""
        for sequence in self.running.values():
            if sequence.failed_steps >= _MOST_FAILURES:
                sequence.fail(
                    Poisoned(
                        f"ranks have died in {sequence.failed_steps} steps of this text one after "
                        "the other: it is not tried again."
                    )
                )
        running, self.running = self.running, {}
        for sequence in running.values():
            if not sequence.over:
                self._dispatcher.queue.put_back(sequence)

    def _refuse(self, error: RankmeshError) -> None:
        """End all sequences: the ranks cannot run a step of them."""
        for sequence in self.running.values():
            sequence.fail(copy_error(error))

    def _accuse(self, fault: InvalidRankData) -> None:
        """Have the replica end ranks that answered nonsense."""

        def raise_fault() -> None:
            incarnation = self._replica.incarnation
            if incarnation is not None and not incarnation.over:
                incarnation.fail(RankmeshError(f"rank {fault.rank} {fault}"), fault.rank)

        self._loop.call_soon(raise_fault)
        self._withdraw()


def _wanted(rows: Items[PlannedRow]) -> list[PlannedRow]:
    """The rows whose next token is chosen, first those that need logits."""
    found = [row for row in rows if row.wanted]
    return sorted(found, key=lambda row: row.sequence.settings.greedy)
