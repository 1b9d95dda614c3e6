"""Several server processes before one orchestrator: any of them answers for all."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import grpc
import numpy as np
import pytest
from processes import PATIENCE, wait_until
from served_grpc import connected, infer_message
from served_http import ServerProcess, binary, serving, tensor
from served_models import doubler
from server_children import ranks_of, server_children

import rankmesh
from rankmesh.comm.errors import UsageError
from rankmesh.orchestrator.server.frontend.listening_sockets import listening_sockets
from rankmesh.orchestrator.server.processes.reserved_port import reserved_port

X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.ones(1, np.float32)
INPUTS = [tensor("x", X), tensor("bias", BIAS)]
NAME = f"processes-{os.getpid()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    model = doubler(tmp_path_factory.mktemp("models"))
    options = ("--server-processes", "2", "--grpc-port", "0", "--management", "--name", NAME)
    with serving(model, *options, "--shared-memory-prefix", "/rmtest-") as made:
        wait_until(lambda: answers(made) == {200}, "both processes")
        yield made
        children = server_children(made.process.pid)
        assert made.terminate() == 0
        assert not any(map(_runs, children))


def answers(server: ServerProcess) -> set[int]:
    """The statuses of readiness, as several connections get them."""
    return {server.get("/v2/health/ready").status for _ in range(10)}


def test_pages_of_any_process_count_the_requests_of_all(server: ServerProcess) -> None:
    def counted() -> int:
        (found,) = server.get("/v2/models/doubler/stats").json["model_stats"]
        return int(found["inference_count"])

    assert len(server_children(server.process.pid)) == 2
    before = counted()
    for n in range(20):
        answer = server.infer("doubler", [tensor("x", X * n), tensor("bias", BIAS)])
        assert answer.json["outputs"][0]["data"] == (2 * n * X + 1).reshape(-1).tolist()
    assert {counted() for _ in range(10)} == {before + 20}
    page = server.get("/metrics").body.decode()
    assert "rankmesh_server_processes 2.0" in page
    assert 'rankmesh_http_responses_total{status="200"}' in page
    assert server.get("/v2/models/doubler").json["versions"] == ["1"]
    assert server.get("/v2/openapi.json").status == 200
    assert server.get("/v2/models/bert").status == 404
    assert server.infer("doubler", []).error.startswith("doubler: got the inputs []")


def test_large_bodies_are_received_where_ranks_read_them(server: ServerProcess) -> None:
    large = np.ones((1 << 18, 4), np.float32)
    document = {
        "inputs": [binary("x", large), binary("bias", BIAS)],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }
    for _ in range(3):
        path = "/v2/models/doubler/infer"
        reply = server.post(path, document, large.tobytes() + BIAS.tobytes())
        assert (reply.array() == 3).all() and reply.array().size == large.size


def test_calls_of_grpc_are_answered_by_any_process(server: ServerProcess) -> None:
    for _ in range(6):
        with connected(server.grpc_port) as client:
            answer = client.send("ModelInfer", infer_message("doubler", {"x": X, "bias": BIAS}))
            found = np.frombuffer(answer.raw_output_contents[0], np.float32)
            assert (found == (2 * X + 1).reshape(-1)).all()
            assert client.call("ModelReady", name="doubler").ready
            assert client.health("doubler") == 1
            assert client.call("ModelMetadata", name="doubler").versions == ["1"]
            assert client.call("RepositoryIndex").models[0].state == "READY"
            with pytest.raises(grpc.RpcError) as refused:
                client.call("ModelStatistics", name="bert")
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND  # type: ignore[attr-defined]
            stream = client.stream([infer_message("doubler", {"x": X, "bias": BIAS})] * 3)
            assert [one.error_message for one in stream] == ["", "", ""]


def test_a_region_of_shared_memory_is_known_to_all_processes(server: ServerProcess) -> None:
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 32}
    x = {"name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": place}
    y = {"name": "y", "parameters": {**place, "shared_memory_offset": 32}}
    with closing(SharedMemory(f"rmtest-{os.getpid()}", create=True, size=64)) as memory:
        memory.buf[:32] = X.tobytes()
        key = {"key": f"/{memory.name}", "byte_size": 64}
        registered = server.post("/v2/systemsharedmemory/region/r/register", key)
        try:
            assert registered.status == 200, registered.body
            for _ in range(6):
                memory.buf[32:] = bytes(32)
                answer = server.infer("doubler", [x, tensor("bias", BIAS)], outputs=[y])
                assert answer.status == 200, answer.body
                assert np.array_equal(
                    np.frombuffer(memory.buf[32:64], np.float32), 2 * X.ravel() + 1
                )
                assert len(server.get("/v2/systemsharedmemory/status").json) == 1
            assert server.post("/v2/systemsharedmemory/region/r/unregister", {}).status == 200
            assert server.infer("doubler", [x, tensor("bias", BIAS)]).status == 404
        finally:
            memory.unlink()


def test_all_processes_switch_to_a_new_version(server: ServerProcess) -> None:
    assert server.post("/v2/repository/models/doubler/load", {}).status == 200
    assert {server.get("/v2/models/doubler/ready").status for _ in range(8)} == {200}

    def version() -> str:
        return str(server.infer("doubler", INPUTS).json["model_version"])

    wait_until(lambda: {version() for _ in range(8)} == {"2"}, "the new version")
    assert server.get("/v2/models/doubler/versions/1").status == 404


def test_a_port_has_one_server(server: ServerProcess) -> None:
    with pytest.raises(UsageError, match=f"port {server.port} of 127.0.0.1: Address already"):
        listening_sockets("127.0.0.1", server.port)
    with pytest.raises(UsageError, match=f"port {server.grpc_port} .* gRPC: Address already"):
        reserved_port("127.0.0.1", server.grpc_port)


def test_other_programs_connect_beside_the_processes(server: ServerProcess) -> None:
    with rankmesh.connect(NAME) as client:
        assert (client.predict({"x": X, "bias": BIAS})["y"] == 2 * X + 1).all()


def test_a_process_that_is_killed_costs_its_own_connections_only(server: ServerProcess) -> None:
    (rank,) = ranks_of(server.process.pid)
    before = server_children(server.process.pid)
    connections = [http.client.HTTPConnection("127.0.0.1", server.port) for _ in range(12)]
    for one in connections:
        one.request("GET", "/v2/health/live")
        one.getresponse().read()
    accepted = server.accepted("doubler")
    os.kill(rank, signal.SIGSTOP)
    try:
        body = json.dumps({"inputs": INPUTS})
        for one in connections:
            one.request("POST", "/v2/models/doubler/infer", body)
        wait_until(lambda: server.accepted("doubler") == accepted + 12, "all requests")
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: len(set(server_children(server.process.pid)) - set(before)) == 1, "one")
        wait_until(lambda: "rankmesh_server_restarts_total 1.0" in metrics(server), "its count")
    finally:
        os.kill(rank, signal.SIGCONT)
    found = [_status(one) for one in connections]
    assert set(found) <= {200, 0} and 200 in found
    assert cancelled(server) >= found.count(0)
    wait_until(lambda: answers(server) == {200}, "the new process")


def test_clients_wait_for_processes_that_are_started_again(server: ServerProcess) -> None:
    before = server_children(server.process.pid)
    for one in before:
        os.kill(one, signal.SIGKILL)
    wait_until(lambda: not any(map(_runs, before)), "their end")
    assert server.get("/v2/health/ready").status == 200
    wait_until(lambda: len(server_children(server.process.pid)) == len(before), "all of them")


def test_readiness_is_told_by_all_processes(server: ServerProcess) -> None:
    (rank,) = ranks_of(server.process.pid)
    os.kill(rank, signal.SIGSTOP)
    try:
        wait_until(lambda: answers(server) == {503}, "unready")
    finally:
        os.kill(rank, signal.SIGCONT)
    wait_until(lambda: answers(server) == {200}, "ready again")


def test_a_rate_holds_for_all_processes_and_their_parents_end_is_theirs(tmp_path: Path) -> None:
    with serving(doubler(tmp_path), "--server-processes", "2", "--rate", "0.01") as server:
        statuses = [server.get("/v2").status for _ in range(6)]  # readiness takes none
        assert statuses == [200, *[429] * 5]
        children = server_children(server.process.pid)
        server.process.kill()
        wait_until(lambda: not any(map(_runs, children)), "the end of its children")


def test_a_stopped_process_does_not_hold_up_the_end(tmp_path: Path) -> None:
    options = ("--server-processes", "2", "--drain-timeout", "0.5")
    with serving(doubler(tmp_path), *options) as server:
        stopped = server_children(server.process.pid)[0]
        os.kill(stopped, signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)
        _, told = server.process.communicate(timeout=PATIENCE)
        assert (server.process.returncode, _runs(stopped)) == (0, False)
        assert f"server process {stopped} is stopped by a signal: it is killed" in told


def metrics(server: ServerProcess) -> str:
    return server.get("/metrics").body.decode()


def cancelled(server: ServerProcess) -> int:
    lines = [one for one in metrics(server).splitlines() if one.startswith("rankmesh_cancelled")]
    return int(sum(float(one.split()[-1]) for one in lines))


def _status(connection: http.client.HTTPConnection) -> int:
    """0 where the server has closed the connection."""
    try:
        with closing(connection):
            response = connection.getresponse()
            response.read()
            return response.status
    except (ConnectionError, http.client.BadStatusLine):
        return 0


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
