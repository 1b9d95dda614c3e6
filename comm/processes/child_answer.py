"""Child's answer: a module runs in a process of its own, and prints one answer.

Processes that only start ranks import no onnx by this.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import NamedTuple

import msgspec

from ..host.process_end import EndOfProcess
from .rank_process import python


class ChildEnd(NamedTuple):
    """The output of a child, its status, which is negative where a signal ended it, and the words
    for that, as the end of a sentence.
    """

    status: int
    data: bytes
    told: str


def run_child(module: str, request: msgspec.Struct) -> ChildEnd:
    """Run a module of Rankmesh with a request as its argument, and wait for its end."""
    command = python(module, msgspec.json.encode(request).decode())
    end = EndOfProcess()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        # The child ends itself when its input does, which is when this process ends.
        data = child.stdout.read()
    return ChildEnd(child.returncode, data, end.told(child.returncode))


def tell(answer: msgspec.Struct) -> None:
    """Print the answer of this process, which is the child."""
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    sys.stdout.buffer.flush()


def follow_parent() -> None:
    """End this process in order when its parent has gone."""

    def stop(number: int, frame: FrameType | None) -> None:
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, signal.SIG_IGN)  # another one would end the removal of files
        sys.exit(128 + number)

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    threading.Thread(target=watch, daemon=True).start()
