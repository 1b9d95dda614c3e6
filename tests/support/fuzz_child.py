"""Child processes of fuzzers: a program that answers lines, and is started again when it ends.

A fault that ends the process, or hangs it, costs one question.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys


class ChildEnded(Exception):
    """The process ended, or gave no answer in time."""


class Child:
    """A program of Python; for each line from its input it writes one to the descriptor that its
    last argument names.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._answers = -1

    def ask(self, line: str, seconds: float) -> str:
        """The answer to a line; ChildEnded says how the process ended instead."""
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], seconds)
            part = os.read(self._answers, 1 << 16) if ready else b""
            if not part:
                raise ChildEnded(self._ended(bool(ready)))
            answer += part
        return answer.decode().rstrip("\n")

    def end(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            os.close(self._answers)
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        self._answers, theirs = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-P", *self._arguments, str(theirs)],
            stdin=subprocess.PIPE,
            pass_fds=(theirs,),
            text=True,
        )
        os.close(theirs)
        return self._process

    def _ended(self, closed: bool) -> str:
        process = self._process
        assert process is not None
        try:
            status = process.wait(60 if closed else 0)
            text = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        except subprocess.TimeoutExpired:
            text = "no answer in time"
        self.end()
        return text


def answer_lines(answer: object) -> None:
    """The loop of such a program: `answer` is a function from a line to one."""
    assert callable(answer)
    with os.fdopen(int(sys.argv[-1]), "w") as answers:
        for line in sys.stdin:
            answers.write(f"{answer(line.rstrip())}\n")
            answers.flush()
