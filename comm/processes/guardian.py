"""Guardian: a shell that kills what ranks have started when their supervisor is killed.

A rank dies with its supervisor (PR_SET_PDEATHSIG), but processes that it has started do not.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from weakref import WeakSet

_SCRIPT = """
trap '' HUP INT TERM
groups=
while read -r order group; do
  case $order in
    watch) groups="$groups -$group" ;;
    forget)
      kept=
      for one in $groups; do [ "$one" = "-$group" ] || kept="$kept $one"; done
      groups=$kept ;;
    done) exit ;;
  esac
done
[ -z "$groups" ] || kill -s KILL -- $groups
"""
"""Reads lines: `watch GROUP` and `forget GROUP` for process groups, and `done`.

An end of the input without `done` means that the supervisor is gone.
"""


class Guardian:
    """A context manager around the shell, which does nothing when the block ends.

    A shell starts in a millisecond and takes a megabyte, unlike Python. It notices the end of the
    supervisor itself, whatever processes the supervisor has forked.
    """

    _writable = -1

    def __enter__(self) -> Guardian:
        readable, self._writable = os.pipe()  # neither is inherited by the ranks
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "rankmesh-guardian"],
                stdin=readable,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={},
            )
        except BaseException:
            os.close(self._writable)
            raise
        finally:
            os.close(readable)
        _living.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._write("done")
        self._close()
        try:
            self._process.wait(1.0)  # a millisecond is enough, unless a signal has stopped it
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def watch(self, group: int) -> None:
        """Kill this process group, too, when the supervisor is killed."""
        self._write(f"watch {group}")

    def forget(self, group: int) -> None:
        """Leave a group alone whose leader has ended: its number may be used again."""
        self._write(f"forget {group}")

    def _write(self, line: str) -> None:
        with suppress(BrokenPipeError):  # the shell was killed
            os.write(self._writable, f"{line}\n".encode())

    def _close(self) -> None:
        _living.discard(self)
        os.close(self._writable)
        self._writable = -1


_living: WeakSet[Guardian] = WeakSet()


def _close_in_child() -> None:
    """Close the pipe in a forked child, which would keep it open beyond the supervisor's end."""
    for guardian in list(_living):
        guardian._close()


os.register_at_fork(after_in_child=_close_in_child)
