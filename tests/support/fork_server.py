"""Fork server of tests: processes that are forked from one that has made their imports already.

To import numpy takes a fifth of a second of each process, and torch two seconds.

    python fork_server.py FD MODULE...

The process takes orders from the socket FD. `main` of the first MODULE gets the arguments of each
in a process of its own, which ends as any process of Python does.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

_LONGEST = 1 << 16
_STREAMS = 2
_STATUS_BYTES = 4


class ForkServer:
    """A process with some modules imported; of each order it forks one that runs `main`."""

    def __init__(self, *modules: str, environment: dict[str, str] | None = None) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *modules],
                pass_fds=(theirs.fileno(),),
                env=environment,
            )

    def start(self, arguments: dict[str, Any], fds: Sequence[int] = ()) -> ForkedProcess:
        """Start a process; its arguments get the item `fds`, its own numbers of these files."""
        sys.audit("os.fork")  # for the guard of pure tests
        ours, theirs = zip(*(os.pipe() for _ in range(_STREAMS + 1)), strict=True)
        socket.send_fds(self._socket, [json.dumps(arguments).encode()], [*theirs, *fds])
        for fd in theirs:
            os.close(fd)
        return ForkedProcess(int(self._socket.recv(_LONGEST)), *ours)

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


class ForkedProcess:
    """A process that was forked, with pipes for what it writes, and nothing to read."""

    def __init__(self, pid: int, stdout: int, stderr: int, status: int) -> None:
        self._pidfd = os.pidfd_open(pid)
        self._streams = {stdout: bytearray(), stderr: bytearray()}
        self._status = status

    def send_signal(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, seconds: float) -> None:
        assert select.select([self._pidfd], [], [], seconds)[0], f"no end in {seconds} s"

    def status(self) -> int:
        """Its exit status once it has ended, or its signal as a negative number."""
        return int.from_bytes(os.read(self._status, _STATUS_BYTES), "little", signed=True)

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
        out, err = (
            io.TextIOWrapper(io.BytesIO(found), "utf-8").read() for found in self._streams.values()
        )
        return out, err

    def end(self, seconds: float) -> None:
        """Kill it if it still runs, and close everything."""
        try:
            self.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait(seconds)
        for fd in (self._pidfd, *self._streams, self._status):
            os.close(fd)


class _Server:
    """The process that forks: takes orders, and tells the exit status of each process."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._statuses: dict[int, int] = {}
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        signal.set_wakeup_fd(self._waking)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> dict[str, Any] | None:
        """Until there are no more orders; in each process that is forked, its arguments."""
        while True:
            ready = select.select([self._orders, self._woken], [], [])[0]
            if self._woken in ready:
                self._reap()
            if self._orders in ready:
                order, fds, _, _ = socket.recv_fds(self._orders, _LONGEST, 16)
                if not order:
                    return None
                pid = os.fork()
                if not pid:
                    return self._become(json.loads(order), fds)
                self._statuses[pid] = fds.pop(_STREAMS)
                for fd in fds:
                    os.close(fd)
                self._orders.send(str(pid).encode())

    def _reap(self) -> None:
        os.read(self._woken, _LONGEST)
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            told = self._statuses.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            with suppress(BrokenPipeError):  # where the status is not wanted
                os.write(told, code.to_bytes(_STATUS_BYTES, "little", signed=True))
            os.close(told)

    def _become(self, arguments: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Make the forked process one of its own; its arguments, with its files."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._orders.close()
        for fd in (self._woken, self._waking, fds.pop(_STREAMS), *self._statuses.values()):
            os.close(fd)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, fd in enumerate((nothing, *fds[:_STREAMS])):
            os.dup2(fd, number)
            os.close(fd)
        return {**arguments, "fds": fds[_STREAMS:]}


def _serve(fd: int, *names: str) -> None:
    modules = [importlib.import_module(name) for name in names]
    main: Callable[[dict[str, Any]], None] = modules[0].main
    gc.freeze()
    with socket.socket(fileno=fd) as orders:
        arguments = _Server(orders).serve()
    if arguments is not None:
        main(arguments)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), *sys.argv[2:])
