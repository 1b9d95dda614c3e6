"""The life of a server process: TERM, a taken port, a model that cannot start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
from processes import PATIENCE, wait_until
from served_http import serving, tensor
from served_models import echo

X = [tensor("x", np.arange(4, dtype=np.float32))]


def test_a_stopped_rank_shows_and_term_drains_and_ends_with_0(tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor() as threads,
        serving(echo(tmp_path, 4), "--drain-delay", "0.1") as server,
    ):
        assert server.infer("echo", X).status == 200
        (rank,) = [
            child
            for child in psutil.Process(server.process.pid).children()
            if "rank=0" in child.cmdline()
        ]
        os.kill(rank.pid, signal.SIGSTOP)
        reply = threads.submit(server.infer, "echo", X)
        wait_until(lambda: server.get("/v2/models/echo/ready").status == 503, "health to show it")
        wait_until(lambda: server.accepted("echo") == 2, "the request to come")
        server.process.send_signal(signal.SIGTERM)
        os.kill(rank.pid, signal.SIGCONT)
        assert reply.result(PATIENCE).status == 200
        assert server.process.wait(PATIENCE) == 0
    wait_until(lambda: not rank.is_running(), "the rank to end")


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rankmesh", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def test_what_cannot_start_is_told(tmp_path: Path) -> None:
    missing = serve(str(tmp_path / "missing.onnx"), "--port", "0")
    assert missing.returncode == 3 and "missing.onnx" in missing.stderr
    assert "Traceback" not in missing.stderr
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        taken = serve(str(tmp_path / "missing.onnx"), "--port", port)
    assert taken.returncode == 2 and f"port {port} of 127.0.0.1" in taken.stderr
    assert "Traceback" not in taken.stderr


FORKING = """
import os, signal, sys, threading, time, urllib.request
import rankmesh


def fork(port: int) -> None:
    says, hears = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(hears, b"here")
        while True:
            time.sleep(0.1)
    os.read(says, 4)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready") as answer:
        print(answer.status)
    os.kill(os.getpid(), signal.SIGTERM)


def listening(port: int) -> None:
    threading.Thread(target=fork, args=[port], daemon=True).start()


with rankmesh.Orchestrator(sys.argv[1]) as orchestrator:
    rankmesh.serve(orchestrator, port=0, on_listening=listening)
"""


def test_term_of_a_forked_child_is_not_the_servers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, echo(tmp_path, 4)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout.split() == [str(-signal.SIGTERM), "200"]
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
