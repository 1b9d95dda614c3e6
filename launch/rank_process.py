"""One rank's process as its supervisor sees it: channel, pidfd, the last lines it wrote."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable

from ..comm.arena import Arena
from ..comm.channel import Channel
from ..comm.rank import Rank

_KEPT_LINES = 20
_LONGEST_LINE = 4096
Log = Callable[[int, str], None]


class RankProcess:
    """A child that runs one rank. `channel`, `pidfd` and `output` are for a selector."""

    def __init__(self, rank: Rank, arena: Arena, log: Log) -> None:
        self.rank = rank
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._log = log
        self._partial = b""
        self.channel, theirs = Channel.pair()
        command = [sys.executable, *_flags(), "-m", "rankmesh.launch.rank_main",
                   str(theirs.fileno()), str(arena.fd), str(os.getpid()), f"rank={rank.rank}"]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), arena.fd), start_new_session=True, env=_environment())
        finally:
            theirs.close()
        assert self._process.stdout is not None
        self.output = self._process.stdout
        os.set_blocking(self.output.fileno(), False)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def read_output(self) -> bool:
        """Take what the rank wrote, line by line, to the log; False at its end."""
        while True:
            try:
                data = self.output.read(1 << 16)
            except BlockingIOError:
                return True
            if data is None:
                return True
            if not data:
                self._line(self._partial)
                self._partial = b""
                return False
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                self._line(line)
            self._partial = self._partial[-_LONGEST_LINE:]

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the process if it still runs."""
        if self.running:
            self._process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """Whether the process ends within `seconds`."""
        poll = select.poll()  # Popen.wait would look only every 50 ms
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        self._process.wait()
        return True

    def epitaph(self) -> str:
        """How the process ended, as a sentence's end; SIGKILL is what the kernel sends when memory runs out."""
        status = self._process.wait()
        if status >= 0:
            return f"exited with status {status}"
        name = signal.Signals(-status).name
        return f"was killed by {name}" + (" (out of memory?)" if -status == signal.SIGKILL else "")

    def close(self) -> None:
        """Free the descriptors; the process must have ended."""
        self.read_output()
        self.channel.close()
        self.output.close()
        os.close(self.pidfd)

    def _line(self, raw: bytes) -> None:
        if raw:
            line = raw[-_LONGEST_LINE:].decode(errors="replace")
            self.last_lines.append(line)
            self._log(self.rank.rank, line)


def _flags() -> list[str]:
    """Do not let the current directory shadow modules, where Python can be told so (3.11)."""
    return ["-P"] if sys.version_info >= (3, 11) else []


def _environment() -> dict[str, str]:
    """Ours, with numpy's own thread pool off: ranks compute in the executor's threads only."""
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ}
