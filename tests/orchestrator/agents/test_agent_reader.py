"""The reading of an agent's messages: by a caller that waits, else by a thread of its own."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from processes import PATIENCE, wait_until

from rankmesh.comm.agents.messages import (
    FromAgent,
    RankLine,
    ToAgent,
    decode_from_agent,
    decode_to_agent,
    encode_from_agent,
    encode_to_agent,
)
from rankmesh.comm.agents.order_messages import OrderDone
from rankmesh.comm.serving.caller_slots import CallerSlots
from rankmesh.comm.transport.frame_stream import FrameStream, StreamEnded
from rankmesh.comm.transport.seal import Seal, SealKeys
from rankmesh.orchestrator.agents.connections.agent_reader import AgentReader

pytestmark = [pytest.mark.pure, pytest.mark.timeout(PATIENCE)]
LARGE = 1_000_000


class WatchedSlots(CallerSlots):
    """Slots that tell whether a caller reads while it waits."""

    reading = False

    def wait_beside(self, seat: int, descriptor: int) -> bool:
        """See CallerSlots.wait_beside."""
        self.reading = True
        try:
            return super().wait_beside(seat, descriptor)
        finally:
            self.reading = False


class Ends:
    """A reader, the agent's end of its connection, and what was taken in which thread."""

    def __init__(self, clear: bool) -> None:
        left, self.wire = socket.socketpair()
        keys = SealKeys.new()
        here, there = (
            (Seal(keys.listener), Seal(keys.caller)),
            (Seal(keys.caller), Seal(keys.listener)),
        )
        self.stream = FrameStream[ToAgent, FromAgent](
            left, here, clear, encode_to_agent, decode_from_agent
        )
        self.agent = FrameStream[FromAgent, ToAgent](
            self.wire, there, clear, encode_from_agent, decode_to_agent
        )
        self.slots = WatchedSlots(CallerSlots.create(), spare=False)
        self.slot = self.slots.take()
        self.taken: list[tuple[FromAgent, str]] = []
        self.reader = AgentReader(self.stream, self.take)
        self.ended: list[str] = []
        self.own = self.begun("own", self.serve)

    def take(self) -> None:
        """Take a message; that an order is done notifies the caller."""
        message, size = self.stream.receive()
        self.stream.read_into(memoryview(bytearray(size)))
        self.taken.append((message, threading.current_thread().name))
        if isinstance(message, OrderDone):
            self.slots.notify(self.slot)

    def serve(self) -> None:
        """The thread of the reader."""
        try:
            self.reader.serve()
        except StreamEnded as error:
            self.ended.append(str(error))

    def call(self) -> threading.Thread:
        """A caller that waits."""
        return self.begun("caller", lambda: self.reader.wait(self.slots, self.slot))

    def begun(self, name: str, run: Callable[[], None]) -> threading.Thread:
        """A thread."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """End all."""
        self.agent.free()
        self.own.join(PATIENCE)
        self.slots.leave(self.slot)
        self.slots.close()


@pytest.fixture(params=[True, False], ids=["clear", "sealed"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    ends = Ends(request.param)
    yield ends
    ends.close()


LINE, DONE = RankLine(1, 0, 1, "loaded"), OrderDone(1, 5, [4096])
TENSOR = memoryview(os.urandom(4096))


def test_a_caller_takes_its_answer_and_what_comes_before(ends: Ends) -> None:
    for _ in range(3):
        caller = ends.call()
        wait_until(lambda: ends.slots.reading, "the caller to read")
        ends.agent.send(LINE)
        ends.agent.send(DONE, [TENSOR])
        caller.join()
    assert ends.taken == [(LINE, "caller"), (DONE, "caller")] * 3


def test_without_a_caller_the_own_thread_reads(ends: Ends) -> None:
    caller = ends.call()
    wait_until(lambda: ends.slots.reading, "the caller to read")
    ends.agent.send(DONE, [TENSOR])
    caller.join()
    ends.agent.send(LINE)
    wait_until(lambda: len(ends.taken) == 2, "the own thread to read")
    assert ends.taken == [(DONE, "caller"), (LINE, "own")]


def test_a_message_larger_than_the_buffer_is_left_to_the_own_thread(ends: Ends) -> None:
    caller = ends.call()
    wait_until(lambda: ends.slots.reading, "the caller to read")
    ends.agent.send(DONE, [memoryview(bytes(LARGE))])
    caller.join()
    assert ends.taken == [(DONE, "own")]


def test_a_caller_is_told_of_a_deadline_while_a_message_comes_in_parts(ends: Ends) -> None:
    caller = ends.call()
    wait_until(lambda: ends.slots.reading, "the caller to read")
    ends.wire.send(b"\x30\0")  # the beginning of a length
    wait_until(lambda: ends.stream.begun, "the part to come")
    ends.slots.announce(ends.slot)
    caller.join()
    assert not ends.taken and not ends.slots.reading


def test_the_end_of_the_connection_leaves_the_caller_at_its_slot(ends: Ends) -> None:
    caller = ends.call()
    wait_until(lambda: ends.slots.reading, "the caller to read")
    ends.agent.close()
    ends.own.join()
    assert ends.ended == ["the other end has closed the connection"]
    again = ends.call()
    while caller.is_alive() or again.is_alive():
        ends.slots.announce(ends.slot)
        caller.join(0.01)
        again.join(0.01)
