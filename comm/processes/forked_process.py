"""Forked process: a child of this process that runs a function, with the imports of this one."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

_STANDARD = 3
"""The number of descriptors of standard input, output and errors."""


class ForkedProcess:
    """A child with pipes for what it writes; its methods are those of subprocess.Popen.

    It leads a session of its own. Of the descriptors of this process it has those in `inherited`
    only, and no signal is handled there. It ends once `program` returns.
    """

    def __init__(
        self,
        program: Callable[[], object],
        environment: Mapping[str, str],
        inherited: Sequence[int],
        prepare: Callable[[], object],
    ) -> None:
        """`prepare` is called first in the child, with the descriptors of its parent."""
        pipes = [os.pipe() for _ in range(_STANDARD - 1)]
        ready, leads = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            _become(program, environment, [*inherited], prepare, [theirs for _, theirs in pipes])
        for theirs in (*(theirs for _, theirs in pipes), leads):
            os.close(theirs)
        os.read(ready, 1)  # the child closes it once it leads its session, which may be killed
        os.close(ready)
        self.stdout, self.stderr = (os.fdopen(ours, "rb") for ours, _ in pipes)
        self._status: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while the child runs."""
        return self._waited(os.WNOHANG)

    def wait(self) -> int:
        """The exit status, once the child has ended."""
        found = self._waited(0)
        assert found is not None
        return found

    def send_signal(self, number: int) -> None:
        """Signal the child, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the child."""
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> None:
        """Close the pipes, and wait for the end of the child."""
        self.stdout.close()
        self.stderr.close()
        self.wait()

    def _waited(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status


def _become(
    program: Callable[[], object],
    environment: Mapping[str, str],
    inherited: Sequence[int],
    prepare: Callable[[], object],
    outputs: Sequence[int],
) -> NoReturn:
    """Run a program in this process, which was forked, and end it."""
    status = 1
    try:
        _forget_signals()
        os.setsid()
        prepare()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, *outputs)):
            os.dup2(descriptor, number)
        _close_all_but(sorted({*range(_STANDARD), *inherited}))
        os.environ.clear()
        os.environ.update(environment)
        program()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def _forget_signals() -> None:
    """Let signals do what they do by default: handlers of the parent would act on its files."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _close_all_but(kept: Sequence[int]) -> None:
    for before, after in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(before + 1, after)
