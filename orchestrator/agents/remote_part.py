"""Remote part: the ranks of an incarnation on the host of one agent."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from ...comm.agents.messages import (
    EndIncarnation,
    FromIncarnation,
    IncarnationEnded,
    IncarnationProgress,
    ModelWish,
    PrepareIncarnation,
    RankEnded,
    RankError,
    RankExchange,
    RankLine,
    RankReported,
    RankStarted,
    ToAgent,
)
from ...comm.agents.order_messages import (
    OrderAnswer,
    OrderDone,
    RankFault,
)
from ...comm.agents.weight_messages import RankAnswered
from ...comm.job.placement import RankSpec
from ...comm.processes.event_callback import EventCallback
from ...comm.processes.event_loop import Action, Timer
from ...comm.processes.output import Log
from ...comm.processes.rank_events import (
    CallbackFailed,
    ProtocolViolated,
    RankExited,
    RankLost,
    RankRaised,
    RankReady,
    RankReplied,
)
from ...comm.processes.supervised_process import SupervisedProcess
from ...comm.request_memory.owned_arena import Region
from ...comm.serving.orders import InvalidRankData, ServeJob
from ...comm.transport.frame_stream import StreamEnded
from ...comm.transport.messages import Failed
from ..event_loop.loop import EventLoopThread
from ..replica.control import read_report
from .connections.rank_connection import RankConnection
from .model_sender import ModelSender
from .remote_control import RemoteControl
from .remote_orders import RemoteOrders
from .remote_process import RemoteProcess

_LOG = logging.getLogger("rankmesh.orchestrator")
_ENDED = 2.0
"""Seconds within which the ranks of a lost agent end, as the kernel or the agent ends them."""
_EXIT_GRACE = 5.0
"""Seconds within which a process ends that has closed its connection."""

_UNTOLD = 30.0
"""Seconds within which an agent tells of the end of ranks, or of those that do not end."""

_LAST_ANSWERS = 1.0
"""Seconds within which the last answers of a process come that has ended."""


class WholeIncarnation(Protocol):
    """All parts of an incarnation, as one of them sees them; for the loop's thread."""

    notify: EventCallback[SupervisedProcess]
    log: Log

    def exchange(self, rank: int, payload: bytes) -> None:
        """Take a rank's payload for an exchange of all ranks. Raises InvalidRankData."""

    def part_ended(self, stuck: Sequence[SupervisedProcess]) -> None:
        """A part is gone, or has killed processes that do not end."""

    def part_kept(self) -> None:
        """A part is lost, and its processes may still write: the ranks start again without it."""


class AgentOfRanks(Protocol):
    """The agent of a part, as that sees it; for any thread."""

    def send(self, message: ToAgent, tensors: Sequence[memoryview]) -> None:
        """Send a message and the tensors that follow."""

    def end(self, reason: str | None = None) -> None:
        """End the connection, for a reason."""


class RemotePart:
    """The processes of one incarnation that one agent starts, and what it tells of them.

    For the loop's thread, but for `take`, which is for that of the agent's messages.
    """

    def __init__(
        self,
        incarnation: int,
        specs: Sequence[RankSpec],
        agent: AgentOfRanks,
        orders: RemoteOrders,
        control: RemoteControl,
        models: ModelSender,
        loop: EventLoopThread,
        connection: RankConnection | None,
    ) -> None:
        """`connection` brings the orders, where this is the one rank of a replica."""
        self.incarnation = incarnation
        self.specs = specs
        self.gone = self.lost = False
        """Whether no process is left, as far as the orchestrator can know; and for which reason."""

        self.processes = {spec.rank.rank: RemoteProcess(spec.rank) for spec in specs}
        self.culprit: int | None = None
        self.orders = orders
        self.control = control
        self._agent = agent
        self._models = models
        self._loop = loop
        self._untold: Timer | None = None
        """Ends the connection of an agent that does not tell of the end which it was asked for."""

        self._connection = connection
        if connection is not None:
            connection.take_by(self.take)
            connection.when_ended(self._note_end_of_connection)

    @property
    def _ending(self) -> bool:
        return self._untold is not None

    @property
    def fetching(self) -> bool:
        """See SupervisedRanks.fetching."""
        return self._models.busy

    def prepare(self, whole: WholeIncarnation, depth: int) -> None:
        """Have the agent lay out memory for `depth` orders."""
        self._whole = weakref.ref(whole)  # which refers to this, and has memory to be freed
        self._notify = whole.notify
        self.tell(PrepareIncarnation(self.incarnation, list(self.specs), depth))

    def start(self, rank: int, job: ServeJob, weights: Sequence[Region], timeout: float) -> None:
        """See SupervisedRanks.start."""
        if self._connection is not None:
            job = msgspec.structs.replace(job, invitation=self._connection.invite())
        if self.control.prepare(rank, job, weights, timeout) == len(self.specs):
            self._models.offer(job, tuple(self.processes), self.control.start_all, self._fail)

    def tell(self, message: ToAgent) -> None:
        """Send a message to the agent."""
        self._agent.send(message, ())

    def end(self, asked: bool) -> None:
        """End the processes: at once, or as they have been `asked` to end."""
        reason = f"it has told nothing of the end of its ranks for {_UNTOLD:g} s"
        self._untold = self._loop.call_later(_UNTOLD, partial(self._agent.end, reason))
        self._models.close()
        if self.gone:
            self._untold.cancel()
        else:
            self.tell(EndIncarnation(self.incarnation, asked))

    def lose(self, text: str) -> None:
        """The agent is gone, but maybe not all ranks; `text` is the end of a sentence about one."""
        if self.gone:
            return
        self.lost = True
        self._models.close()
        if not self._ending:
            self._notify(RankLost(self._first, text))
        self._loop.call_later(_ENDED, partial(self._keep, text))

    def note_gone(self) -> None:
        """No process of a lost agent can write into this host's memory any more."""
        self._close_and(self._note_gone)

    def take(
        self,
        message: FromIncarnation | OrderDone | ModelWish,
        size: int,
        read_into: Callable[[memoryview], None],
    ) -> None:
        """Take a message of the agent, and the `size` bytes behind it.

        Raises StreamEnded, and InvalidRankData for a message that cannot be, whatever is wrong with
        it: the thread may be that of a caller.
        """
        try:
            self._take(message, size, read_into)
        except StreamEnded:
            raise
        except Exception as error:
            fault = error if isinstance(error, InvalidRankData) else self._unfit(message, error)
            self._loop.call_soon(partial(self._notify, CallbackFailed(fault)))
            raise fault from error

    def _take(
        self,
        message: FromIncarnation | OrderDone | ModelWish,
        size: int,
        read_into: Callable[[memoryview], None],
    ) -> None:
        match message:
            case ModelWish():
                failed = self._models.answer(message.wish)
                if failed is not None:
                    self._loop.call_soon(self._notify.guarded(partial(self._fail, failed)))
            case OrderDone():
                self.orders.finish(message, size, read_into)
            case OrderAnswer():
                self.orders.take(message, size, read_into)
            case _:
                self._require_own(message)
                if isinstance(message, RankAnswered):
                    self.control.take_weights(message, size, read_into)
                handle = self._notify.guarded(partial(self._handle, message))
                self._loop.call_soon(handle)

    def _unfit(self, message: object, error: Exception) -> InvalidRankData:
        first, kind = self.specs[0].rank.rank, type(message).__name__
        return InvalidRankData(first, f"has an agent that sent an {kind} that cannot be: {error}")

    def _keep(self, text: str) -> None:
        if not self.gone:
            note = "%s %s. It may still run: the memory of its requests is kept until it has ended"
            _LOG.warning(note, self._first.rank, text)
            whole = self._whole()
            if whole is not None:
                whole.part_kept()

    @property
    def _first(self) -> RemoteProcess:
        return self.processes[self.specs[0].rank.rank]

    def _require_own(self, message: FromIncarnation) -> None:
        first = self.specs[0].rank
        for told in _ranks_told(message):
            if told not in self.processes:
                text = f"has an agent that told of rank {told}, which it lacks"
                raise InvalidRankData(first.rank, text)
        if isinstance(message, IncarnationProgress) and message.culprit >= first.world_size:
            text = f"has an agent that blames rank {message.culprit} of {first.world_size}"
            raise InvalidRankData(first.rank, text)

    def _fail(self, failed: Failed) -> None:
        self._notify(RankRaised(self._first, failed))

    def _handle(self, message: FromIncarnation) -> None:
        if isinstance(message, IncarnationEnded):
            self._note_end(message)
            return
        if isinstance(message, IncarnationProgress):
            self._note_progress(message)
            return
        process, notify, whole = self.processes[message.rank], self._notify, self._whole()
        if whole is None:  # what it tells comes too late
            return
        match message:
            case RankStarted():
                process.pid, process.place = message.pid, message.place
            case RankExchange():
                whole.exchange(message.rank, message.payload)
            case RankReported():
                if process.reported:
                    raise InvalidRankData(message.rank, "has reported twice that it is ready")
                process.reported = True
                self.orders.reported(read_report(message.rank, message.report))
                ready = partial(notify, RankReady(process, message.report))
                if self._connection is None:
                    ready()
                else:
                    self._connection.when_open(notify.guarded(ready))
            case RankAnswered():
                notify(RankReplied(process, message.number, message.reply))
            case RankError():
                notify(RankRaised(process, Failed(message.error, message.text)))
            case RankFault():
                notify(ProtocolViolated(process, message.text))
            case RankEnded():
                process.ended = message.epitaph
                self._close_and(partial(notify, RankExited(process)), _LAST_ANSWERS)
            case RankLine():
                process.last_lines.append(message.text)
                whole.log(message.rank, message.stream, message.text)

    def _note_progress(self, message: IncarnationProgress) -> None:
        self.culprit = None if message.culprit < 0 else message.culprit
        late = time.monotonic_ns() - message.now  # of another host's clock
        for told in message.ranks:
            process = self.processes[told.rank]
            process.stopped = told.stopped
            entered_at = told.progress.entered_at + late
            process.progress = msgspec.structs.replace(told.progress, entered_at=entered_at)

    def _note_end(self, message: IncarnationEnded) -> None:
        if not self._ending or self.gone:
            return
        if message.stuck:
            self._tell_ended([self.processes[rank] for rank in message.stuck])
        else:
            self._close_and(self._note_gone)

    def _note_gone(self) -> None:
        if not self.gone:
            self.gone = True
            self._tell_ended(())

    def _tell_ended(self, stuck: Sequence[SupervisedProcess]) -> None:
        if self._untold is not None:
            self._untold.cancel()
        whole = self._whole()
        if whole is not None:
            whole.part_ended(stuck)

    def _close_and(self, action: Action, after: float = 0.0) -> None:
        """Act once the connection of a rank has ended: it is closed `after` so many seconds, or at
        once where the rank has not connected yet.
        """
        if self._connection is None:
            action()
            return
        self._connection.when_ended(action)
        self._notify.call_later(after if self._connection.opened else 0.0, self._connection.close)

    def _note_end_of_connection(self) -> None:
        """The connection of a rank has ended, mostly as its process does, which its agent tells."""
        if not self._ending and not self.lost:
            self._notify.call_later(_EXIT_GRACE, self._check_exit)

    def _check_exit(self) -> None:
        if not self._ending and not self.lost:
            text = "closed the connection of its requests, and lives on"
            self._notify(ProtocolViolated(self._first, text))


def _ranks_told(message: FromIncarnation) -> Sequence[int]:
    """The ranks that a message tells of."""
    match message:
        case IncarnationProgress():
            return [one.rank for one in message.ranks]
        case IncarnationEnded():
            return message.stuck
        case _:
            return [message.rank]
