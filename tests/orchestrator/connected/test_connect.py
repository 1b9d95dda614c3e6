"""rankmesh.connect: an orchestrator's client in another process, and what it is refused."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import PATIENCE, wait_until
from served_models import doubler, grower

import rankmesh
from rankmesh.comm.transport import newcomers
from rankmesh.comm.transport.message_stream import ChannelClosed, MessageStream
from rankmesh.comm.transport.newcomers import CROWDED, SILENT
from rankmesh.orchestrator.endpoint import endpoint, messages
from rankmesh.orchestrator.endpoint.names import path_of

PROGRAM = Path(__file__).parents[2] / "support" / "connected_program.py"
NAME = f"test-{uuid.uuid4().hex}"
X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.zeros(1, np.float32)
GIVEN = {"x": X, "bias": BIAS}


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rankmesh.Orchestrator]:
    folder = tmp_path_factory.mktemp("models")
    settings = folder / "serve.yaml"
    paths = [doubler(folder), grower(folder)]
    settings.write_text("models:\n" + "".join(f"  - path: {path}\n" for path in paths))
    with rankmesh.Orchestrator(config=str(settings)) as made:
        made.listen(NAME)
        yield made


@pytest.fixture
def client(orchestrator: rankmesh.Orchestrator) -> Iterator[rankmesh.OrchestratorClient]:
    with rankmesh.connect(NAME) as made:
        yield made


def used(orchestrator: rankmesh.Orchestrator) -> int:
    gc.collect()
    return orchestrator._fleet.parts.arena.used


def test_another_process_gets_answers(orchestrator: rankmesh.Orchestrator) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, NAME], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_a_client_answers_as_its_orchestrator_does(
    orchestrator: rankmesh.Orchestrator, client: rankmesh.OrchestratorClient
) -> None:
    assert client.models() == orchestrator.models() == ("doubler", "grower")
    assert client.versions() == orchestrator.versions()
    assert client.inputs("doubler") == orchestrator.inputs("doubler")
    assert client.outputs("grower", 1) == orchestrator.outputs("grower", 1)
    assert client.status().ranks == orchestrator.status().ranks
    assert list(client.predict(GIVEN, model="doubler")) == ["y", "s"]
    (rank,) = client.predict(GIVEN, model="doubler", results="all", version=1)
    np.testing.assert_array_equal(rank["y"], 2 * X)
    assert client.predict(np.array([70_000]), model="grower")["y"].sum() == 70_000
    assert client.metrics().keys() == orchestrator.metrics().keys()
    assert client.metrics()["grower"]["answered"] >= 1


def test_many_requests_at_once_get_each_its_own(client: rankmesh.OrchestratorClient) -> None:
    asked = [client.submit({**GIVEN, "x": X * n}, model="doubler") for n in range(200)]
    for n, one in enumerate(asked):
        np.testing.assert_array_equal(one.result(PATIENCE)["y"], 2 * n * X)

    async def ask() -> None:
        given = [client.predict_async({**GIVEN, "x": X * n}, model="doubler") for n in range(50)]
        for n, found in enumerate(await asyncio.gather(*given)):
            np.testing.assert_array_equal(found["y"], 2 * n * X)

    asyncio.run(ask())


def test_a_callback_may_send_further_requests(client: rankmesh.OrchestratorClient) -> None:
    found: list[object] = []
    refused: list[str] = []
    own = threading.get_ident()

    def more(_: object) -> None:
        if found or threading.get_ident() == own:
            return  # the answer was there before the callback
        large = np.ones((1 << 16, 4), np.float32)  # memory for it is asked for in the callback
        found.append(client.submit({**GIVEN, "x": large}, model="doubler"))
        try:
            client.predict(GIVEN, model="doubler")
        except rankmesh.UsageError as error:
            refused.append(str(error))

    def called_back() -> bool:
        client.submit(GIVEN, model="doubler").add_done_callback(more)
        return bool(found)

    wait_until(called_back, "the callback")
    wait_until(lambda: bool(refused), "the refusal of a call that would wait for itself")
    assert "may not be called from a callback" in refused[0]
    assert found[0].result(PATIENCE)["y"].sum() == 8 << 16  # type: ignore[attr-defined]


def test_inputs_are_written_in_place(client: rankmesh.OrchestratorClient) -> None:
    with client.buffers("doubler", x=(2, 4)) as buffers:
        for n in range(3):
            buffers["x"][...] = n
            buffers["bias"][...] = 1
            assert (client.predict(buffers, model="doubler")["y"] == 2 * n + 1).all()
    with pytest.raises(rankmesh.UsageError, match="given back"):
        client.predict(buffers, model="doubler")


def test_an_answer_stays_as_long_as_it_is_held(client: rankmesh.OrchestratorClient) -> None:
    held = [client.predict({**GIVEN, "x": X * n}, model="doubler") for n in range(20)]
    for n, one in enumerate(held):
        np.testing.assert_array_equal(one["y"], 2 * n * X)


def test_errors_are_those_of_the_orchestrator(client: rankmesh.OrchestratorClient) -> None:
    with pytest.raises(rankmesh.InputError, match=r"input 'x' has the shape \[3\]"):
        client.predict({**GIVEN, "x": X[0, :3]}, model="doubler")
    with pytest.raises(rankmesh.UsageError, match="there is no model 'bert'"):
        client.predict(GIVEN, model="bert")
    with pytest.raises(rankmesh.DeadlineExceeded):
        client.predict(GIVEN, model="doubler", timeout=0.0)
    with pytest.raises(rankmesh.OutOfMemory):
        client.buffers("doubler", x=(1 << 40, 4))


def test_a_client_sees_models_that_are_loaded_later(
    orchestrator: rankmesh.Orchestrator, client: rankmesh.OrchestratorClient
) -> None:
    version = orchestrator.load(orchestrator.settings()["doubler"])
    wait_until(lambda: client.versions()["doubler"].all == (1, version), "the new version")
    orchestrator.unload("doubler", 1)
    np.testing.assert_array_equal(client.predict(GIVEN, model="doubler")["y"], 2 * X)
    with pytest.raises(rankmesh.UsageError, match="has no version 1"):
        wait_until(lambda: client.versions()["doubler"].all == (version,), "the unloading")
        client.predict(GIVEN, model="doubler", version=1)


def test_a_killed_client_leaves_nothing(orchestrator: rankmesh.Orchestrator) -> None:
    wait_until(lambda: not used(orchestrator), "the memory of clients that were closed")
    counts = orchestrator.metrics()["doubler"]
    (rank,) = (one for one in orchestrator.status().ranks if one.model == "doubler")
    assert rank.pid is not None
    os.kill(rank.pid, signal.SIGSTOP)
    try:
        with subprocess.Popen(
            [sys.executable, PROGRAM, NAME, "hold"], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None and process.stdout.readline().startswith("asked")
            wait_until(
                lambda: orchestrator.metrics()["doubler"]["accepted"] == counts["accepted"] + 3,
                "its requests",
            )
            assert used(orchestrator) > 4 << 20
            process.kill()
        wait_until(
            lambda: orchestrator.metrics()["doubler"]["cancelled"] == counts["cancelled"] + 3,
            "their end",
        )
    finally:
        os.kill(rank.pid, signal.SIGCONT)
    wait_until(lambda: not used(orchestrator), "its memory")


def test_a_name_has_one_owner(orchestrator: rankmesh.Orchestrator, tmp_path: Path) -> None:
    with rankmesh.Orchestrator(doubler(tmp_path)) as other:
        with pytest.raises(rankmesh.UsageError, match=f"process {os.getpid()} of this user"):
            other.listen(NAME)
        with pytest.raises(rankmesh.UsageError, match="got the name '../x', expected 1 to 64"):
            other.listen("../x")
        second = f"{NAME[:30]}-2"
        other.listen(second)
        client = rankmesh.connect(second)
        asked = client.buffers("doubler", x=(1, 4))
    with pytest.raises(rankmesh.Closed, match=f"'{second}'.* has ended the connection"):
        client.predict(asked)
    client.close()
    with pytest.raises(rankmesh.UsageError, match=rf"no orchestrator listens .*'{second}'"):
        rankmesh.connect(second)


def test_a_forked_child_connects_anew(client: rankmesh.OrchestratorClient) -> None:
    child = os.fork()
    if not child:
        try:
            client.models()
        except rankmesh.UsageError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    np.testing.assert_array_equal(client.predict(GIVEN, model="doubler")["y"], 2 * X)


SENT: dict[str, messages.ProgramMessage] = {
    "got a request before the greeting": messages.Cancel(1),
    "it has version 0.0 of rankmesh": messages.Greeting("0.0"),
}
GREETED: dict[str, messages.ProgramMessage] = {
    "memory at 4096, which it does not have": messages.SentRequest(
        1, "doubler", 2, True, 4096, ((1, 4), (1,)), None, 0, False
    ),
    "the return of memory at 0": messages.RoomReturn([0]),
    "a second greeting": messages.Greeting(rankmesh.__version__),
    "the timeout nan": messages.SentRequest(1, "doubler", 2, True, 0, (), float("nan"), 0, False),
}


@contextmanager
def stranger(greeting: bool) -> Iterator[MessageStream[Any, messages.EndpointMessage]]:
    """A connection that sends what it likes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(path_of(NAME))
        stream = MessageStream(sock, messages.encode, messages.decode_endpoint)
        if greeting:
            stream.send(messages.Greeting(rankmesh.__version__))
            os.close(stream.receive_with_fds()[1][0])
        yield stream


@pytest.mark.parametrize("reason", [*SENT, *GREETED])
def test_programs_that_break_the_rules_are_sent_away(
    orchestrator: rankmesh.Orchestrator, reason: str
) -> None:
    with stranger(reason in GREETED) as stream:
        stream.send(GREETED.get(reason) or SENT[reason])
        refused = stream.receive()
        assert isinstance(refused, messages.Declined)
        assert reason in refused.text


def test_silent_connections_make_room_and_are_told_why(
    orchestrator: rankmesh.Orchestrator, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as crowd:
        strangers = [crowd.enter_context(stranger(False)) for _ in range(200)]
        with rankmesh.connect(NAME) as late:
            assert set(late.models()) == {"doubler", "grower"}
        for one in strangers[:100]:
            refused = one.receive()
            assert isinstance(refused, messages.Declined) and CROWDED in refused.text
    assert len([one for one in caplog.records if CROWDED in one.getMessage()]) < 30


def test_a_silent_connection_ends(
    orchestrator: rankmesh.Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newcomers, "SECONDS", 0.1)
    with stranger(False) as stream:
        refused = stream.receive()
        assert isinstance(refused, messages.Declined) and SILENT in refused.text
        with pytest.raises(ChannelClosed):
            stream.receive()


def test_a_program_that_finds_no_place_is_told_so(
    orchestrator: rankmesh.Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MOST_PROGRAMS", 0)
    for _ in range(20):  # whether its greeting or the refusal comes first
        with pytest.raises(rankmesh.UsageError, match="0 programs are connected already"):
            rankmesh.connect(NAME)


def test_inputs_beyond_their_memory_are_refused(orchestrator: rankmesh.Orchestrator) -> None:
    version = orchestrator.versions()["doubler"].current
    with stranger(greeting=True) as stream:
        stream.send(messages.RoomWish(1, 4096))
        room = stream.receive()
        assert isinstance(room, messages.Room)
        shapes = ((4096, 4), (1,))
        stream.send(
            messages.SentRequest(2, "doubler", version, True, room.offset, shapes, None, 0, False)
        )
        refused = stream.receive()
        assert isinstance(refused, messages.Declined)
        assert "got inputs of 65600 bytes in memory of 4096" in refused.text
