"""What an orchestrator and the ranks of one epoch say to each other over their channels, beside orders and answers."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ..comm.channel import ChannelClosed, ChannelGarbled
from ..comm.errors import RankmeshError, error_named
from ..comm.messages import Ask, Exchange, Exchanged, Failed, Message, Ready, Told
from ..comm.processes.post import Post
from ..comm.processes.rank_process import RankProcess
from ..comm.relay import Relay
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import Serving
from .loop import Act, Loop, Timer
from .reports import read_report

_SILENCE = 5.0
"""Seconds within which a process has ended that has closed its channel."""


def _unheard(*_: object) -> None:
    """What is said after the end."""


def _same(act: Act) -> Act:
    return act


class Inquiry(Protocol):
    """Who asks the ranks of an epoch something; called in the loop's thread."""

    questions: Sequence[bytes]
    """One per rank, of comm/serving/weights.py."""

    def take(self, rank: int, reply: bytes) -> bool:
        """What a rank has replied; whether it was the last one. Raises Nonsense."""

    def lose(self) -> None:
        """The epoch is over: no more replies come."""


class Conversation:
    """Messages of the ranks in `processes`, to which more may come; in the loop's thread.

    A message that is none, or that does not belong where it comes, is Nonsense.
    """

    def __init__(self, processes: Sequence[RankProcess], size: int, loop: Loop, guarded: Callable[[Act], Act],
                 ready: Callable[[], None], failed: Callable[[RankmeshError, int], None]) -> None:
        """`guarded` is the epoch's; `ready` is called once all `size` ranks are, `failed` with a rank's own error."""
        self._processes, self._size, self._loop, self._guarded = processes, size, loop, guarded
        self._ready, self._failed = ready, failed
        self.reports: dict[int, Serving] = {}
        self.over = False
        self._inquiries: dict[int, Inquiry] = {}
        self._timers: list[Timer] = []
        self._asked = 0
        self._relay = Relay(size, 0.0)  # the deadline is that of the whole start
        self.post = Post(loop.selector, 0.0)

    @property
    def complete(self) -> bool:
        """Whether all ranks have reported that they are ready."""
        return len(self.reports) == self._size

    @property
    def awaited(self) -> list[int]:
        """While the ranks start: those that the others, or we, wait for."""
        return self._relay.late() if self._relay.pending else [
            rank for rank in range(self._size) if rank not in self.reports]

    def ask(self, inquiry: Inquiry) -> None:
        """Ask all ranks something beside their orders; the inquiry is told their replies, or that none will come."""
        if not self.complete or self.over:
            inquiry.lose()
            return
        self._asked += 1
        self._inquiries[self._asked] = inquiry
        for process, question in zip(self._processes, inquiry.questions, strict=True):
            self.post.send(process, Ask(self._asked, question))

    def end(self) -> None:
        """Nothing is said any more."""
        self.over = True
        self.post.close()
        self._ready, self._failed, self._guarded = _unheard, _unheard, _same  # the epoch's: its memory is to be free
        for timer in self._timers:
            timer.cancel()

    def lose(self) -> None:
        """No replies come: to be told once the group knows, or who asks again would ask the same ranks."""
        for inquiry in self._inquiries.values():
            inquiry.lose()
        self._inquiries.clear()

    def read(self, process: RankProcess) -> bool:
        """Take what a rank says; False when it says no more, or when this is over."""
        try:
            messages = process.channel.receive_ready()
        except ChannelGarbled as error:
            text = f"sent what is no message of this version of rankmesh: {error}"
            raise Nonsense(process.rank.rank, text) from error
        except ChannelClosed:
            self._loop.forget(process.channel)  # its end tells more, and comes at once
            gone = self._guarded(partial(self._check_gone, process))
            self._timers.append(self._loop.call_later(_SILENCE, gone))
            return False
        for message in messages:
            if not self.over:
                self._handle(process.rank.rank, message)
        return not self.over

    def read_all(self, process: RankProcess) -> None:
        """Take what a rank that has died has said."""
        while readable(process) and self.read(process):
            pass

    def _handle(self, rank: int, message: Message) -> None:
        if isinstance(message, Failed):
            self._failed(error_named(message.error, message.text), rank)
        elif isinstance(message, Exchange) and rank not in self.reports and rank in self._relay.late():
            payloads = self._relay.give(rank, message.payload)
            for other in self._processes if payloads else ():
                self.post.send(other, Exchanged(payloads or []))
        elif isinstance(message, Ready) and rank not in self.reports:
            self.reports[rank] = read_report(rank, message.report)
            if self.complete:
                self._ready()
        elif isinstance(message, Told):
            if message.number not in self._inquiries:
                raise Nonsense(rank, f"sent a reply to question {message.number}, which is not open")
            if self._inquiries[message.number].take(rank, message.reply):
                del self._inquiries[message.number]
        else:
            raise Nonsense(rank, f"sent a message, {type(message).__name__}, that does not belong there")

    def _check_gone(self, process: RankProcess) -> None:
        if not self.over and not process.ending:
            raise Nonsense(process.rank.rank, "closed its channel, and lives on")


def readable(process: RankProcess) -> bool:
    """Whether a rank has said something that was not read, or has closed its channel."""
    poll = select.poll()
    poll.register(process.channel, select.POLLIN)
    return bool(poll.poll(0))
