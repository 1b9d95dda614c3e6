"""Fork server of tests: processes that are forked from one that has made their imports already.

To import numpy takes a fifth of a second of each process, and torch two seconds.

    python fork_server.py FD MODULE...

The process takes orders from the socket FD. `main` of the first MODULE gets the arguments of each.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

_LONGEST = 1 << 16
_STREAMS = 3


class ForkServer:
    """A process with some modules imported; of each order it forks one that runs `main`."""

    def __init__(self, *modules: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *modules],
                pass_fds=(theirs.fileno(),),
            )

    def start(self, arguments: dict[str, Any], fds: Sequence[int]) -> ForkedProcess:
        """Start a process; its arguments get the item `fds`, its own numbers of these files."""
        ends = [os.pipe() for _ in range(_STREAMS)]
        theirs = [ends[0][0], ends[1][1], ends[2][1]]
        ours = [ends[0][1], ends[1][0], ends[2][0]]
        socket.send_fds(self._socket, [json.dumps(arguments).encode()], [*theirs, *fds])
        for fd in theirs:
            os.close(fd)
        return ForkedProcess(int(self._socket.recv(_LONGEST)), *ours)

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


class ForkedProcess:
    """A process that was forked, with pipes in the place of its standard streams."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self._pidfd = os.pidfd_open(pid)
        self._stdin = stdin
        self._streams = {stdout: bytearray(), stderr: bytearray()}
        self._open = True

    def send_signal(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, seconds: float) -> None:
        assert select.select([self._pidfd], [], [], seconds)[0], f"no end in {seconds} s"

    def communicate(self, seconds: float) -> tuple[str, str]:
        """What it has written until its end."""
        waiting = list(self._streams)
        while waiting:
            ready = select.select(waiting, [], [], seconds)[0]
            assert ready, f"no end in {seconds} s"
            for fd in ready:
                data = os.read(fd, _LONGEST)
                self._streams[fd] += data
                if not data:
                    waiting.remove(fd)
        self.wait(seconds)
        out, err = (found.decode() for found in self._streams.values())
        return out, err

    def end(self, seconds: float) -> None:
        """Kill it if it still runs, and close everything."""
        try:
            self.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait(seconds)
        for fd in (self._pidfd, self._stdin, *self._streams):
            os.close(fd)


def _serve(orders: socket.socket, main: Callable[[dict[str, Any]], None]) -> None:
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        order, fds, _, _ = socket.recv_fds(orders, _LONGEST, 16)
        if not order:
            return
        pid = os.fork()
        if not pid:
            _run(orders, json.loads(order), fds, main)
        for fd in fds:
            os.close(fd)
        orders.send(str(pid).encode())


def _reap(*_: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _run(
    orders: socket.socket,
    arguments: dict[str, Any],
    fds: list[int],
    main: Callable[[dict[str, Any]], None],
) -> None:
    """A new process, up to its end."""
    orders.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, fd in enumerate(fds[:_STREAMS]):
        os.dup2(fd, number)
        os.close(fd)
    status = 1
    try:
        main({**arguments, "fds": fds[_STREAMS:]})
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    modules = [importlib.import_module(name) for name in sys.argv[2:]]
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given, modules[0].main)
