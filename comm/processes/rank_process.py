"""One rank's process as its supervisor sees it: channel, pidfd, the last lines it wrote."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..arena import Arena
from ..channel import Channel
from ..inherited import VARIABLE, described
from ..memory_limit import memory_limit
from ..messages import Start
from ..rank import Rank
from .oom_kills import oom_kills
from .output import Log, Output
from .parent import die_with

_KEPT_LINES = 20
_EXIT_CODE = 49  # proc(5): field 52 of stat, the third is the first behind the name
_FLAGS, _PF_EXITING = 6, 0x4
_REASONS: dict[int, str] = {signal.SIGBUS: " (a model file cut short while it was open?)"}


@dataclass(frozen=True, slots=True)
class Command:
    """What a rank's process runs: arguments, variables beside ours, cores to pin it to, its job, descriptors for it.

    A command without a job is a user's script, which is done when it exits with status 0.
    """

    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    start: Start | None = None
    descriptors: tuple[int, ...] = ()
    place: str = ""
    """Where it computes, as errors name it; "" for the host's processors."""

    prepared: bool = False
    """Whether the program itself sees to it that it dies with us, and to its cores: that spares a fork of ours."""


class RankProcess:
    """A child that runs one rank. `channel`, `pidfd` and `outputs` are for a selector."""

    def __init__(self, rank: Rank, command: Command, arena: Arena, log: Log) -> None:
        self.rank = rank
        self.command = command
        self._oom_kills = oom_kills()
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.channel, theirs = Channel.pair()
        try:
            self._process = self._spawn(theirs, arena)
        finally:
            theirs.close()
        pipes = (self._process.stdout, self._process.stderr)
        self.outputs = [Output(pipe, rank.rank, stream, log, self.last_lines)
                        for stream, pipe in enumerate(pipes, 1) if pipe is not None]
        self.pid = self._process.pid
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:  # no descriptor is left
            self._process.kill()
            self._process.communicate()
            self.channel.close()
            raise

    def _spawn(self, theirs: Channel, arena: Arena) -> subprocess.Popen[bytes]:
        parent, cores = os.getpid(), self.command.cores

        def prepare() -> None:
            """In the child, before its program: die with the supervisor; keep to one's own cores."""
            die_with(parent)
            if cores:
                os.sched_setaffinity(0, cores)

        environment = {**_defaults(), **self.command.environment, VARIABLE: described(theirs.fileno(), arena.fd)}
        return subprocess.Popen(
            self.command.arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(), arena.fd, *self.command.descriptors), start_new_session=True, env=environment,
            preexec_fn=None if self.command.prepared else prepare)

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    @property
    def ending(self) -> bool:
        """Whether the process has ended or the kernel is ending it."""
        try:
            flags = int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[_FLAGS])
            return bool(flags & _PF_EXITING) or not self.running
        except (OSError, IndexError, ValueError):
            return True

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger has stopped the process."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
        except (OSError, IndexError):
            return False

    def read_outputs(self) -> None:
        """Log what the rank wrote so far."""
        for output in self.outputs:
            output.read_all()

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the process if it still runs."""
        if self.running:
            self._process.send_signal(number)

    def kill_descendants(self) -> None:
        """Kill what the process has started in its session; to be called soon after its end."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Whether the process ends within `seconds`."""
        poll = select.poll()  # Popen.wait would look only every 50 ms
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        self._process.wait()
        return True

    def status(self) -> int:
        """The exit status of a process that has ended; negative for a signal."""
        return self._process.wait()

    def epitaph(self) -> str:
        """How the process ended, or is ending, as a sentence's end, with what the kernel sends the signal for."""
        status = self._early_status() or self.status()
        if status >= 0:
            return f"exited with status {status}"
        reason = _REASONS.get(-status, "")
        if -status == signal.SIGKILL and oom_kills() > self._oom_kills:
            reason = _out_of_memory()
        return f"was killed by {_signal_name(-status)}{reason}"

    def _early_status(self) -> int:
        """The exit status of a process whose memory is still being given back; 0 where that is not known."""
        if not self.running:
            return 0
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE]))
        except (OSError, IndexError, ValueError):
            return 0

    def close(self) -> None:
        """Free the descriptors; the process should have ended."""
        for output in self.outputs:
            output.close()
        self.channel.close()
        os.close(self.pidfd)


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module of ours with this Python, and imports nothing from the current folder."""
    how = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", RUN_MODULE]
    return (sys.executable, *how, module, *arguments)


RUN_MODULE = ("import sys; del sys.path[0], sys.argv[0]; "
              "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)")
"""What `-P -m` does, for versions without -P: with -c, the first entry of the path is the current folder."""


def _out_of_memory() -> str:
    """Why the kernel may have killed a process, with the limit where its control group has one."""
    note = memory_limit().note
    return f" (out of memory? {note[0].upper()}{note[1:]})" if note else " (out of memory?)"


def _signal_name(number: int) -> str:
    """A signal as people know it; those between SIGRTMIN and SIGRTMAX have numbers only."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _defaults() -> dict[str, str]:
    """Our environment, with numpy's own thread pool off: ranks compute in the executor's threads only."""
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ}
