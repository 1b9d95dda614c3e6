"""The events of supervised ranks, with processes of a few lines."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterator

import pytest
from processes import PATIENCE

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.processes.event_loop import EventLoop
from rankmesh.comm.processes.guardian import Guardian
from rankmesh.comm.processes.process_ender import AT_ONCE
from rankmesh.comm.processes.rank_events import (
    CallbackFailed,
    ChannelLost,
    ProtocolViolated,
    RankEvent,
    RankExited,
    RankRaised,
    RankReady,
    RankReplied,
    RoundBroken,
    RoundLate,
)
from rankmesh.comm.processes.rank_process import Command, RankProcess
from rankmesh.comm.processes.rank_supervisor import RankSupervisor
from rankmesh.comm.rendezvous.relay import Relay

CONNECTED = """
    import os, sys, time
    from rankmesh.comm.job.environment import inherited_fds
    from rankmesh.comm.transport.channel import Channel
    from rankmesh.comm.transport.messages import ControlReply, Exchange, Failed, Ready
    channel = Channel.inherited(inherited_fds(os.environ)[0])
"""


class Job:
    """A supervisor with its loop and the events that it has told."""

    def __init__(self, size: int, timeout: float) -> None:
        self.arena = Arena.create(size)
        self.loop = EventLoop()
        self.guardian = Guardian()
        self.events: list[RankEvent[RankProcess]] = []
        self.supervisor = RankSupervisor(
            self.arena,
            Relay(size, timeout),
            self.loop,
            self.guardian,
            self.events.append,
            lambda rank, stream, line: print(rank, line),
        )

    def start(self, *actions: str) -> None:
        """Start one rank for each of these lines of Python."""
        for rank, action in enumerate(actions):
            code = textwrap.dedent(CONNECTED) + action
            command = Command((sys.executable, "-c", code))
            self.supervisor.start(Rank(rank, len(actions), rank, len(actions), "h", rank), command)

    def until(self, condition: Callable[[], bool]) -> None:
        """Turn the loop until `condition`, within a deadline."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.events
            self.loop.turn(0.1)

    def until_event(self, kind: type[RankEvent[RankProcess]]) -> RankEvent[RankProcess]:
        """Turn the loop until an event of this kind has come, which is returned."""
        self.until(lambda: any(isinstance(event, kind) for event in self.events))
        return next(event for event in self.events if isinstance(event, kind))


@pytest.fixture
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    """A job of two ranks; the parameter is its timeout."""
    made = Job(2, getattr(request, "param", 0.0))
    with made.guardian:
        yield made
        ender = made.supervisor.end(AT_ONCE, lambda left: None)
        made.until(lambda: ender.over)
        assert made.supervisor.gone and not ender.left
    made.loop.close()
    made.arena.close()


SLEEP = "time.sleep(60)"


def test_what_a_rank_sends_comes_as_events_in_its_order(job: Job) -> None:
    job.start(
        "channel.send(Ready(b'report')); channel.send(ControlReply(7, b'reply')); "
        "channel.send(Failed('RankFailed', 'enough'))",
        SLEEP,
    )
    job.until_event(RankExited)
    process = job.supervisor.processes[0]
    told = [event for event in job.events if not isinstance(event, ChannelLost)]
    ready, replied, raised, exited = told
    assert ready == RankReady(process, b"report")
    assert replied == RankReplied(process, 7, b"reply")
    assert isinstance(raised, RankRaised) and raised.error.text == "enough"
    assert exited == RankExited(process)
    assert job.supervisor.awaited == [1]


def test_an_exchange_is_relayed(job: Job) -> None:
    action = (
        "channel.send(Exchange(b'{}')); channel.send(Ready(b''.join(channel.receive().payloads)))"
    )
    job.start(action.format(0), action.format(1))
    job.until(lambda: len([one for one in job.events if isinstance(one, RankReady)]) == 2)
    assert {event.report for event in job.events if isinstance(event, RankReady)} == {b"01"}


@pytest.mark.parametrize("job", [1.0], indirect=True)
def test_an_exchange_that_is_late_names_the_ranks_that_are_missing(job: Job) -> None:
    job.start("channel.send(Exchange(b''));" + SLEEP, SLEEP)
    assert job.until_event(RoundLate) == RoundLate([job.supervisor.processes[1]])


def test_an_exchange_that_waits_for_an_ended_rank_is_broken(job: Job) -> None:
    job.start("channel.send(Exchange(b''));" + SLEEP, "")
    assert job.until_event(RoundBroken) == RoundBroken(job.supervisor.processes[1])


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("channel.send(Exchange(b'')); channel.send(Exchange(b''));", "a message, Exchange, that"),
        ("channel.send(Ready(b'')); channel.send(Ready(b''));", "a message, Ready, that"),
        ("os.write(channel.fileno(), b'\\xff' * 8);", "no message of this version"),
    ],
)
def test_a_rank_that_sends_what_it_must_not_is_named(job: Job, action: str, text: str) -> None:
    job.start(action + SLEEP, SLEEP)
    event = job.until_event(ProtocolViolated)
    assert isinstance(event, ProtocolViolated)
    assert event.process is job.supervisor.processes[0] and text in event.text


def test_an_error_in_a_callback_is_an_event(job: Job) -> None:
    error = ValueError("enough")

    def fail() -> None:
        raise error

    job.loop.call_soon(job.supervisor.guarded(fail))
    assert job.until_event(CallbackFailed) == CallbackFailed(error)
