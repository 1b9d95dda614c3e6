"""A rank that writes what cannot be: it is named and replaced, and neither a request nor the
orchestrator suffers.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from leftovers import nothing_left
from moody import FOR_EVER, inputs, moody, paused, replicas, strike, wait_ready, wait_running
from processes import PATIENCE, wait_until
from served_models import doubler, echo

from rankmesh import Orchestrator, RankFailed
from rankmesh.comm.job_memory.arena import record_byte
from rankmesh.comm.serving.order_state import OrderState
from rankmesh.comm.serving.orders import Answer, InvalidRankData, ModelReport, TensorRef
from rankmesh.comm.serving.ring import Ring
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.replica.control import read_report
from rankmesh.orchestrator.replica.incarnation import Incarnation

IN_RANKS = Path(__file__).parents[2] / "support" / "in_ranks"
ROWS = {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "bias": np.ones(1, np.float32)}


def incarnation_of(orchestrator: Orchestrator) -> Incarnation:
    incarnation = replicas(orchestrator)[0].incarnation
    assert incarnation is not None
    return incarnation


def write_state(ring: Ring, word: int) -> None:
    """As rank 0 does, in the slot of the latest order."""
    ring._states[(ring.given - 1) % ring.depth][0] = word


def state(ring: Ring) -> None:
    write_state(ring, 12345)


def garbage(ring: Ring) -> None:
    number = ring.given - 1
    ring._write(ring._lines[number % ring.depth][0] + 4096 // 8, b"\xff" * 100)
    write_state(ring, OrderState.ANSWERED + number)


def answer(*places: TensorRef, needed: int = 0) -> Callable[[Ring], None]:
    def write(ring: Ring) -> None:
        ring.reply(ring.given - 1, 0, Answer(list(places), needed))

    return write


def greedy(ring: Ring) -> None:
    number = ring.given - 1
    ring._write_answer(number, 0, Answer([], needed=-5))
    write_state(ring, OrderState.NEEDS_ROOM + number)


HERE = TensorRef(0, (0,))
WRITTEN = {
    "a state that is none": (state, "wrote 0x3039 where the state of its request stands"),
    "an answer that is none": (garbage, "gave an answer that cannot be read"),
    "too few outputs": (answer(HERE), "answered with 1 outputs, expected 2"),
    "a place below zero": (
        answer(TensorRef(-4096, (2, 4)), HERE),
        "answered with memory that is not its request's",
    ),
    "a place of another request": (
        answer(TensorRef(1 << 21, (2, 4)), HERE),
        "memory that is not its request's",
    ),
    "a place beyond all": (
        answer(TensorRef(2**63 - 16, (2, 4)), HERE),
        "memory that is not its request's",
    ),
    "a shape below zero": (answer(TensorRef(0, (-1, 4)), HERE), "memory that is not its request's"),
    "room for nothing": (greedy, "asked for room of -5 bytes"),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_nonsense_for_an_answer_names_the_rank_and_the_request_runs_again(
    tmp_path: Path, what: str
) -> None:
    write, text = WRITTEN[what]
    with Orchestrator(doubler(tmp_path), hang_timeout=2.0) as orchestrator:
        with paused(orchestrator, 0):
            future = orchestrator.submit(ROWS)
            wait_running(orchestrator)
            write(incarnation_of(orchestrator).ring)
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], ROWS["x"] * 2 + 1)
        (rank,) = orchestrator.status().ranks
        assert rank.restarts == 1 and text in rank.last_error and "rank 0 of 1" in rank.last_error


def test_what_others_hold_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    with Orchestrator(doubler(tmp_path), hang_timeout=2.0) as orchestrator:
        others = orchestrator.predict(ROWS)["y"]
        place = orchestrator._fleet.parts.arena.offset_of(others)
        assert place is not None
        with paused(orchestrator, 0):
            future = orchestrator.submit({"x": ROWS["x"] * 3, "bias": ROWS["bias"]})
            wait_running(orchestrator)
            answer(TensorRef(place, (2, 4)), HERE)(incarnation_of(orchestrator).ring)
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], ROWS["x"] * 6 + 1)


def write_stage(incarnation: Incarnation) -> None:
    incarnation.ranks.arena.words[record_byte(0) // 8] = 999


def write_collective(incarnation: Incarnation) -> None:
    incarnation.ranks.arena.words[record_byte(0) // 8 + 1] = 0xFFFF


def write_end(incarnation: Incarnation) -> None:
    incarnation.ranks.arena._bytes[record_byte(0) + 512 : record_byte(0) + 516] = (
        0x40000000
    ).to_bytes(4, "little")


RECORDS = {
    "stage": (write_stage, "is no stage or collective"),
    "collective": (write_collective, "is no stage or"),
    "end": (write_end, "wrote in shared memory that it has ended, and lives on"),
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_record_that_cannot_be_names_the_rank_and_status_still_answers(
    tmp_path: Path, what: str
) -> None:
    write, text = RECORDS[what]
    with Orchestrator(echo(tmp_path, 4), hang_timeout=2.0) as orchestrator:
        write(incarnation_of(orchestrator))
        orchestrator.status()
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the rank to be replaced")
        assert text in orchestrator.status().ranks[0].last_error
        wait_ready(orchestrator)
        np.testing.assert_array_equal(orchestrator.predict(np.ones(4, np.float32))["y"], np.ones(4))


def test_ranks_end_whatever_stage_they_wrote(tmp_path: Path) -> None:
    with nothing_left():
        orchestrator = Orchestrator(moody(tmp_path), hang_timeout=1000.0, start_timeout=1000.0)
        orchestrator.submit(inputs(FOR_EVER))
        wait_running(orchestrator)
        write_stage(incarnation_of(orchestrator))
        began = time.monotonic()
        orchestrator.close()
        assert time.monotonic() - began < PATIENCE


def test_a_count_of_orders_that_a_rank_has_written_is_not_believed(tmp_path: Path) -> None:
    given = np.ones(4, np.float32)
    with Orchestrator(echo(tmp_path, 4), hang_timeout=2.0) as orchestrator:
        for count in (2**64 - 1, 0):
            wait_ready(orchestrator)
            ring = incarnation_of(orchestrator).ring
            with paused(orchestrator, 0):
                future = orchestrator.submit(given)
                wait_running(orchestrator)
                ring._words[3] = count
                queued = orchestrator.submit(given)
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], given)
            np.testing.assert_array_equal(queued.result(PATIENCE)["y"], given)


def test_a_rank_killed_by_a_signal_without_a_name_is_replaced(tmp_path: Path) -> None:
    with Orchestrator(echo(tmp_path, 4)) as orchestrator:
        strike(orchestrator, 0, signal.SIGRTMIN + 3)  # type: ignore[arg-type]
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the rank to be replaced")
        wait_ready(orchestrator)
        assert (
            f"was killed by signal {signal.SIGRTMIN + 3}"
            in orchestrator.status().ranks[0].last_error
        )


CHANNELS = {
    "garbage": ("os.write(fd, b'\\x05' + b'\\0' * 7 + b'\\xff' * 5)", "sent what is no message"),
    "too long": ("os.write(fd, b'\\xff' * 8)", "sent what is no message"),
    "floods": (
        """
import msgspec
from rankmesh.comm.transport.messages import ControlReply, encode
data = encode(ControlReply(7, b"x" * 1000))
while True:
    os.write(fd, len(data).to_bytes(8, "little") + data)
""",
        "sent a reply to question 7, which is not open",
    ),
    "closes": (
        "import socket\nsocket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RDWR)",
        "closed its channel, and lives on",
    ),
}
PROGRAM = """
import os, time
from pathlib import Path
while not Path({flag!r}).exists():
    time.sleep(0.01)
try:
    os.unlink({flag!r})
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            found = os.readlink("/proc/self/fd/%d" % fd).startswith("socket")
        except OSError:
            continue
        if found:
{act}
except BrokenPipeError:
    pass
"""


@pytest.mark.parametrize("what", CHANNELS)
def test_a_rank_that_misuses_its_channel_is_named_and_replaced(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, text = CHANNELS[what]
    flag, program = tmp_path / "flag", tmp_path / "program.py"
    indented = "".join(f"            {line}\n" for line in act.splitlines())
    program.write_text(PROGRAM.format(flag=str(flag), act=indented))
    monkeypatch.setenv("PYTHONPATH", str(IN_RANKS))
    monkeypatch.setenv("TEST_IN_RANKS", str(program))
    with Orchestrator(echo(tmp_path, 4), hang_timeout=2.0) as orchestrator:
        flag.touch()
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the rank to be replaced")
        assert text in orchestrator.status().ranks[0].last_error
        wait_ready(orchestrator)
        np.testing.assert_array_equal(orchestrator.predict(np.ones(4, np.float32))["y"], np.ones(4))


def report(**changes: object) -> bytes:
    sound = {
        "path": "m",
        "inputs": (TensorSpec("x", "float32", (4,)),),
        "outputs": (TensorSpec("y", "float32", (4,)),),
        "results": (0,),
    }
    return msgspec.msgpack.encode(ModelReport(**{**sound, **changes}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        report()[:-3],
        report(results=(1,)),
        report(results=(-1,)),
        report(results=(0, 0)),
        report(outputs=(TensorSpec("y", "O", (4,)),)),
        report(inputs=(TensorSpec("x", "i4,O", (4,)),)),
        report(inputs=(TensorSpec("x", "no such", (4,)),)),
        report(inputs=(TensorSpec("x", "float32", (-2,)),)),
        report(inputs=(TensorSpec("x", "float32", (2**40, 2**40)),)),
    ],
)
def test_a_report_that_cannot_be_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRankData):
        read_report(3, data)
    assert read_report(3, report()).path == "m"


def test_a_rank_that_says_nonsense_at_the_start_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    flag = tmp_path / "flag"
    flag.touch()
    program.write_text(
        PROGRAM.format(flag=str(flag), act=f"            {CHANNELS['too long'][0]}\n")
    )
    monkeypatch.setenv("PYTHONPATH", str(IN_RANKS))
    monkeypatch.setenv("TEST_IN_RANKS", str(program))
    with nothing_left(), pytest.raises(RankFailed, match="rank 0 of 1 .* sent what is no message"):
        Orchestrator(echo(tmp_path, 4))
