"""Process of a rank as its supervisor sees it: starts it, signals it, and tells how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ..host.process_end import EndOfProcess
from ..host.process_identity import ProcessStat, is_stopped
from ..job.environment import CHANNEL_VARIABLE, described
from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..transport.channel import Channel
from ..transport.messages import Start
from .forked_process import ForkedProcess
from .output import Log, Output
from .rank_main import set_parent_death_signal

KEPT_LINES = 20


@dataclass(frozen=True, slots=True)
class Command:
    """The command of a rank's process."""

    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    """Variables beside those of this process."""

    cores: tuple[int, ...] = ()
    """The cores to run on; none: all."""

    start: Start | None = None
    """The message with the job; None for a user's script, which is done at exit status 0."""

    descriptors: tuple[int, ...] = ()
    """Descriptors that the process inherits."""

    sent: tuple[int, ...] = ()
    """Descriptors that go along with `start`."""

    place: str = ""
    """The device as errors name it; "" for the host's processors."""

    prepared: bool = False
    """Whether the program itself sets its parent death signal and its cores: no fork is needed."""

    program: Callable[[], object] | None = None
    """A function that a fork of this process calls in the place of `arguments`."""


class RankProcess:
    """A child that runs one rank. `channel`, `pidfd` and `outputs` are for an event loop."""

    def __init__(self, rank: Rank, command: Command, arena: Arena, log: Log) -> None:
        self.rank = rank
        self.command = command
        self.leaves_descendants = False
        """Whether processes that it has started may outlive it, as its work is done."""

        self._end = EndOfProcess()
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.channel, theirs = Channel.pair()
        try:
            self._process = self._spawn(theirs, arena)
        finally:
            theirs.close()
        pipes = (self._process.stdout, self._process.stderr)
        self.outputs = [
            Output(pipe, rank.rank, stream, log, self.last_lines)
            for stream, pipe in enumerate(pipes, 1)
            if pipe is not None
        ]
        self.pid = self._process.pid
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:  # no descriptor is left
            self._process.kill()
            self._process.communicate()
            self.channel.close()
            raise

    def _spawn(self, theirs: Channel, arena: Arena) -> subprocess.Popen[bytes] | ForkedProcess:
        parent = os.getpid()
        cores = self.command.cores

        def prepare() -> None:
            """Prepare the child before its program runs."""
            set_parent_death_signal(parent)
            if cores:
                os.sched_setaffinity(0, cores)

        environment = {
            "OPENBLAS_NUM_THREADS": "1",  # ranks compute in the executor's threads, not in numpy's
            **os.environ,
            **self.command.environment,
            CHANNEL_VARIABLE: described(theirs.fileno(), arena.fd),
        }
        inherited = (theirs.fileno(), arena.fd, *self.command.descriptors)
        if self.command.program is not None:
            return ForkedProcess(self.command.program, environment, inherited, prepare)
        return subprocess.Popen(
            self.command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=inherited,
            start_new_session=True,
            env=environment,
            preexec_fn=None if self.command.prepared else prepare,
        )

    @property
    def place(self) -> str:
        """The device as errors name it; "" for the host's processors."""
        return self.command.place

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    @property
    def ending(self) -> bool:
        """Whether the process has ended or the kernel is ending it."""
        stat = ProcessStat.of(self.pid)
        return stat is None or stat.exiting or not self.running

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger has stopped the process."""
        return is_stopped(self.pid)

    def read_outputs(self) -> None:
        """Log the lines that the rank has written so far."""
        for output in self.outputs:
            output.read_all()

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the process if it still runs."""
        if self.running:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process, and processes that it has started unless they may outlive it."""
        if self.leaves_descendants:
            self.send_signal(signal.SIGKILL)
        else:
            self.kill_descendants()  # it leads their process group

    def kill_descendants(self) -> None:
        """Kill processes that it has started in its session, unless they may outlive it.

        Call this before `status` or soon after it: later the process's number may be another's.
        """
        if not self.leaves_descendants:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def status(self) -> int:
        """The exit status, negative for a signal; waits for the end of the process."""
        return self._process.wait()

    def epitaph(self) -> str:
        """How the process ended, or is ending, as the end of a sentence."""
        stat = ProcessStat.of(self.pid) if self.running else None
        # known early while the memory of the process is still being given back
        status = (stat.exit_code if stat else 0) or self.status()
        return self._end.told(status)

    def close(self) -> None:
        """Free the descriptors; the process should have ended."""
        for output in self.outputs:
            output.close()
        self.channel.close()
        os.close(self.pidfd)


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module of Rankmesh with this Python.

    Nothing is imported from the current folder.
    """
    how = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", RUN_MODULE]
    return (sys.executable, *how, module, *arguments)


RUN_MODULE = (
    "import sys; del sys.path[0], sys.argv[0]; "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
"""The same as `-P -m`, for Python 3.10: with -c, the path begins with the current folder."""
