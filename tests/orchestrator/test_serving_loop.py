"""The serving loop of docs/orchestrator.md: TERM ends it with status 0, and no answer is lost."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import psutil
from processes import PATIENCE, wait_until
from served_models import echo

DOCUMENT = Path(__file__).parents[2] / "docs" / "orchestrator.md"


def program() -> str:
    """The one that the document shows."""
    section = DOCUMENT.read_text().split("## A serving loop\n")[1]
    return section.split("```python\n")[1].split("```")[0]


def post(port: int, array: object, timeout: float = PATIENCE) -> tuple[int, object]:
    """Status and array."""
    data = io.BytesIO()
    np.save(data, array)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", data.getvalue(), timeout) as answer:
            return answer.status, np.load(io.BytesIO(answer.read()))
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


def refuses(port: int, array: object) -> bool:
    """Whether the server answers 503 at once. A request that it still accepted waits."""
    try:
        return post(port, array, 0.5)[0] == 503
    except TimeoutError:
        return False


def waits_for_a_rank(pid: int) -> bool:
    """Whether a thread waits for an answer: it reads an eventfd."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "syscall").read_text().split()
        with suppress(OSError, ValueError, IndexError):
            if os.readlink(f"/proc/{pid}/fd/{int(fields[1], 16)}") == "anon_inode:[eventfd]":
                return True
    return False


def test_the_documented_server_that_is_sent_term_answers_refuses_and_exits_with_0(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.py"
    file.write_text(program())
    given, answers = np.arange(4, dtype=np.float32), []
    command = [sys.executable, file, echo(tmp_path, 4)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        ExitStack() as cleanup,
    ):
        cleanup.callback(server.kill)
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(" ")[2])
        assert post(port, given)[0] == 200 and post(port, given.astype(np.int32))[0] == 400
        (rank,) = [
            child for child in psutil.Process(server.pid).children() if "rank=0" in child.cmdline()
        ]
        os.kill(rank.pid, signal.SIGSTOP)
        asks = threading.Thread(target=lambda: answers.append(post(port, given)))
        asks.start()
        wait_until(lambda: waits_for_a_rank(server.pid), "the request to be accepted")
        server.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(port, given), "the server to refuse")
        os.kill(rank.pid, signal.SIGCONT)
        asks.join(PATIENCE)
        assert server.wait(PATIENCE) == 0
    ((status, array),) = answers
    assert status == 200
    np.testing.assert_array_equal(array, given)
