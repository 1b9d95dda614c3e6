"""Deadlines, cancellation, health and the end of a gRPC server whose rank is stopped."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from processes import PATIENCE, wait_until
from served_grpc import connected, infer_message
from served_http import ServerProcess, serving
from served_models import echo

from rankmesh.orchestrator.server.grpc.protocol.health import HealthCheckResponse

Code = grpc.StatusCode
MESSAGE = infer_message("echo", {"x": np.arange(4, dtype=np.float32)})


def rank_of(server: ServerProcess) -> psutil.Process:
    children = psutil.Process(server.process.pid).children()
    (rank,) = [child for child in children if "rank=0" in child.cmdline()]
    return rank


def test_deadlines_cancellation_health_and_the_drain(tmp_path: Path) -> None:
    watched: list[int] = []
    found: list[Any] = []
    with (
        ThreadPoolExecutor() as threads,
        serving(echo(tmp_path, 4), "--grpc-port", "0", "--drain-delay", "0.1") as server,
        connected(server.grpc_port) as client,
    ):
        client.send("ModelInfer", MESSAGE)
        watch = client.watch("echo")
        watcher = threads.submit(lambda: watched.extend(one.status for one in watch))
        wait_until(lambda: watched == [HealthCheckResponse.SERVING], "the first word")
        rank = rank_of(server)
        os.kill(rank.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        wait_until(lambda: watched[-1] == HealthCheckResponse.NOT_SERVING, "the watch to tell")
        assert not client.call("ServerReady").ready
        assert time.monotonic() - stopped < 25  # a hang is 30 s

        for timeout, parameter in ((0.3, 0), (PATIENCE, 300_000)):
            MESSAGE.parameters["timeout"].int64_param = parameter
            with pytest.raises(grpc.RpcError) as raised:
                client.send("ModelInfer", MESSAGE, timeout)
            assert raised.value.code() == Code.DEADLINE_EXCEEDED
        MESSAGE.parameters.clear()
        before = server.accepted("echo")
        call = client.method("ModelInfer").future(MESSAGE, timeout=PATIENCE)
        wait_until(lambda: server.accepted("echo") == before + 1, "the request to come")
        call.cancel()

        ended = threading.Event()

        def requests() -> Iterator[Any]:
            yield MESSAGE
            ended.wait(PATIENCE)

        def ask() -> None:
            try:
                found.extend(client.stream(requests()))
            except grpc.RpcError as error:
                found.append(error.code())

        asks = threads.submit(ask)
        wait_until(lambda: server.accepted("echo") == before + 2, "the stream's request to come")
        server.process.send_signal(signal.SIGTERM)
        os.kill(rank.pid, signal.SIGCONT)
        asks.result(PATIENCE)
        ended.set()
        watcher.result(PATIENCE)
        assert server.process.wait(PATIENCE) == 0
    answer, code = found
    assert answer.infer_response.raw_output_contents[0] == MESSAGE.raw_input_contents[0]
    assert code == Code.UNAVAILABLE and watched[-1] == HealthCheckResponse.NOT_SERVING


def test_a_port_has_one_server_and_connections_have_a_limit(tmp_path: Path) -> None:
    model = echo(tmp_path, 4)
    with serving(model, "--grpc-port", "0", "--max-connections", "2") as server:
        port = str(server.grpc_port)
        command = [sys.executable, "-m", "rankmesh", "serve", model, "--port", "0"]
        second = subprocess.run(
            [*command, "--grpc-port", port], capture_output=True, text=True, timeout=PATIENCE
        )
        assert second.returncode != 0 and f"port {port} of 127.0.0.1 cannot be had" in second.stderr
        with connected(server.grpc_port) as one, connected(server.grpc_port) as two:
            assert one.call("ServerLive").live and two.call("ServerLive").live
            with connected(server.grpc_port) as three, pytest.raises(grpc.RpcError) as raised:
                three.call("ServerLive", 2.0)
            assert raised.value.code() in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)
            assert one.call("ServerLive").live


def test_connections_without_a_call_make_room_for_others(tmp_path: Path) -> None:
    """As many as there may be: half of them do not even begin to speak HTTP/2."""
    options = ("--max-connections", "6", "--idle-timeout", "1", "--header-timeout", "1")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    with (
        serving(echo(tmp_path, 4), "--grpc-port", "0", *options) as server,
        ExitStack() as crowd,
    ):
        for first in [preface, b""] * 5:
            one = socket.create_connection(("127.0.0.1", server.grpc_port), PATIENCE)
            crowd.enter_context(one).sendall(first)
        with connected(server.grpc_port) as client:
            client.send("ModelInfer", MESSAGE, wait_for_ready=True)
        found = re.findall(r"rankmesh_connections_limit({.*)", server.get("/metrics").body.decode())
    assert found == ['{protocol="http"} 6.0', '{protocol="grpc"} 6.0']
