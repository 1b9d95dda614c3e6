"""Rank supervisor: starts the ranks of a job on one host, relays their exchanges, and ends them.

Between the plan of ranks and their work: each RankSpec becomes a process here, and the death of a
process is noticed here.

`rankmesh run`, `rankmesh launch` and the orchestrator supervise with this class, each with an event
loop of its own. It tells them what happens to the ranks by typed events (rank_events.py).
"""

from __future__ import annotations

import select
import signal
from collections.abc import Callable, Sequence
from functools import partial

from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.progress import Progress, Stage
from ..rendezvous.relay import Relay
from ..transport.message_stream import ChannelClosed, ChannelGarbled
from ..transport.messages import (
    ControlReply,
    Exchange,
    Exchanged,
    Failed,
    Finished,
    Message,
    Ready,
)
from .event_callback import EventCallback
from .event_loop import Action, EventLoop, HasFileno, Timer
from .guardian import Guardian
from .message_sender import MessageSender
from .output import Log, Output
from .process_ender import ProcessEnder, Schedule
from .rank_events import (
    ChannelLost,
    ProtocolViolated,
    RankEvent,
    RankExited,
    RankRaised,
    RankReady,
    RankReplied,
    RankUnresponsive,
    RoundBroken,
    RoundLate,
)
from .rank_process import Command, RankProcess

_STACKS = 0.3
"""Seconds for a rank to write the stacks of its threads."""


class RankSupervisor:
    """The processes of the ranks, in rank order. All methods are for the thread of `loop`.

    An exception in a callback about the ranks comes as an event, too: CallbackFailed.
    """

    def __init__(
        self,
        arena: Arena,
        relay: Relay,
        loop: EventLoop,
        guardian: Guardian,
        notify: Callable[[RankEvent[RankProcess]], None],
        log: Log,
    ) -> None:
        """`relay` collects exchanges; its deadline is also that of messages that a rank does not
        take. `notify` gets the events, `log` the lines that ranks write.
        """
        self.processes: list[RankProcess] = []
        self._arena = arena
        self._loop = loop
        self._guardian = guardian
        self._notify = EventCallback(notify, loop)
        self.guarded = self._notify.guarded
        self.call_later = self._notify.call_later
        self._log = log
        self._relay = relay
        self._round_timer: Timer | None = None
        self._sender = MessageSender(loop, relay.timeout, self._note_unresponsive)
        self.send = self._sender.send
        self._reported: set[int] = set()
        self._ender: ProcessEnder | None = None

    @property
    def gone(self) -> bool:
        """Whether the ranks were ended and no process is left."""
        return self._ender is not None and not self._ender.left

    @property
    def awaited(self) -> list[int]:
        """The ranks that an open exchange waits for, or else those that have not reported."""
        if self._relay.pending:
            return self._relay.late()
        return [rank for rank in self._relay.late() if rank not in self._reported]

    def start(self, rank: Rank, command: Command) -> None:
        """Start the process of a rank, and send it its job if it has one."""
        process = RankProcess(rank, command, self._arena, self._log)
        self.processes.append(process)
        self._guardian.watch(process.pid)
        self._watch(process.channel, partial(self._read, process))
        self._watch(process.pidfd, partial(self.note_exit, process))
        for output in process.outputs:
            self._watch(output, partial(self._read_output, output))
        if command.start is not None:
            self.send(process, command.start, command.sent)

    def request_stacks(self, process: RankProcess, then: Action) -> Timer:
        """Have a rank write the stacks of its threads to its output, and call `then` afterwards."""
        process.send_signal(signal.SIGUSR1)  # faulthandler, see rank_main.py
        return self.call_later(_STACKS, then)

    def answer_exchange(self, payloads: list[bytes]) -> None:
        """Give all processes the payloads of all ranks, in rank order."""
        for process in self.processes:
            self.send(process, Exchanged(payloads))

    def note_exit(self, process: RankProcess) -> None:
        """Handle the end of a process, after what it has sent before."""
        self._loop.forget(process.pidfd)
        self._read_all(process)
        self._relay.leave(process.rank.rank)
        self._notify(RankExited(process))
        self._check_round()

    def end(
        self,
        schedule: Schedule,
        finished: Callable[[Sequence[RankProcess]], None],
    ) -> ProcessEnder:
        """End all processes; see ProcessEnder. Their last messages still come as events."""
        for process in self.processes:
            self._loop.forget(process.channel)
            self._loop.forget(process.pidfd)
            for output in process.outputs:
                self._loop.forget(output)
        self._sender.close()
        self._cancel_round_timer()
        self._ender = ProcessEnder(
            self.processes,
            schedule,
            self._loop,
            self._release,
            partial(self._finish, finished),
            self._saves_build,
        )
        return self._ender

    def _finish(
        self, finished: Callable[[Sequence[RankProcess]], None], left: Sequence[RankProcess]
    ) -> None:
        if not left:
            self._notify.drop()
        finished(left)

    def _saves_build(self, process: RankProcess) -> bool:
        """Whether a rank has carried out all its orders, and may still write its build."""
        return Progress(self._arena, process.rank.rank).stage is Stage.DONE

    def _release(self, process: RankProcess) -> None:
        """Free an ended process, and kill what it has started before its number is used again."""
        try:
            self._read_all(process)
        finally:
            process.kill_descendants()
            process.status()
            self._guardian.forget(process.pid)
            process.close()

    def _watch(self, descriptor: int | HasFileno, action: Action) -> None:
        self._loop.watch(descriptor, self.guarded(action))

    def _read_output(self, output: Output) -> None:
        if not output.read():
            self._loop.forget(output)

    def _read_all(self, process: RankProcess) -> None:
        """Handle what an ended process has sent."""
        while _readable(process) and self._read(process):
            pass

    def _read(self, process: RankProcess) -> bool:
        """Handle what a rank has sent; False when nothing more can come."""
        try:
            messages = process.channel.receive_ready()
        except ChannelGarbled as error:
            self._loop.forget(process.channel)
            text = f"sent what is no message of this version of rankmesh: {error}"
            self._notify(ProtocolViolated(process, text))
            return False
        except ChannelClosed:
            self._loop.forget(process.channel)
            self._notify(ChannelLost(process))
            return False
        for message in messages:
            self._handle(process, message)
        return True

    def _handle(self, process: RankProcess, message: Message) -> None:
        rank = process.rank.rank
        starting = rank not in self._reported
        if isinstance(message, Exchange) and starting and rank in self._relay.late():
            self._exchange(rank, message.payload)
        elif isinstance(message, Ready | Finished) and starting:
            self._reported.add(rank)
            self._notify(RankReady(process, message.report))
        elif isinstance(message, ControlReply):
            self._notify(RankReplied(process, message.number, message.reply))
        elif isinstance(message, Failed):
            self._notify(RankRaised(process, message))
        else:
            text = f"sent a message, {type(message).__name__}, that does not belong there"
            self._notify(ProtocolViolated(process, text))

    def _exchange(self, rank: int, payload: bytes) -> None:
        """Take a rank's payload; the last one completes the round."""
        if self._ender is not None:
            return
        payloads = self._relay.give(rank, payload)
        if payloads is not None:
            self._cancel_round_timer()
            self.answer_exchange(payloads)
        elif self._round_timer is None and (seconds := self._relay.next_timeout()) is not None:
            self._round_timer = self.call_later(seconds, self._note_late_round)
        self._check_round()

    def _cancel_round_timer(self) -> None:
        if self._round_timer is not None:
            self._round_timer.cancel()
            self._round_timer = None

    def _note_late_round(self) -> None:
        self._notify(RoundLate([self.processes[rank] for rank in self._relay.late()]))

    def _check_round(self) -> None:
        """Tell of an exchange that can never be complete."""
        rank = self._relay.broken_by
        if rank is not None:
            self._notify(RoundBroken(self.processes[rank]))

    def _note_unresponsive(self, process: RankProcess) -> None:
        self._notify(RankUnresponsive(process))


def _readable(process: RankProcess) -> bool:
    """Whether a rank has sent something that was not read, or has closed its channel."""
    poll = select.poll()
    poll.register(process.channel, select.POLLIN)
    return bool(poll.poll(0))
