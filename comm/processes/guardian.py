"""Who ends what the ranks have started when their supervisor is killed and cannot."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from types import TracebackType
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
"""Reads which process groups to watch and to forget, one a line, then `done`; an end without it means that the
supervisor is gone.

A rank dies with its supervisor by itself (PR_SET_PDEATHSIG), but what it has started does not hear of that.
"""


_PATIENCE = 1.0
"""Seconds for the shell to end; it needs a millisecond, unless somebody has stopped it."""


class Guardian:
    """A shell that waits beside the ranks; a context manager whose ordinary end makes it do nothing.

    A shell, not a Python, because it is there in a millisecond and takes a megabyte. A process that the supervisor
    forks does not count as the supervisor.
    """

    _writable = -1

    def __enter__(self) -> Guardian:
        readable, self._writable = os.pipe()  # neither is inherited by the ranks
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "rankmesh-guardian"], stdin=readable, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True, env={})
        except BaseException:
            os.close(self._writable)
            raise
        finally:
            os.close(readable)
        _living.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._tell("done")
        self._close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def watch(self, group: int) -> None:
        """End this process group, too, should the supervisor be killed."""
        self._tell(f"watch {group}")

    def forget(self, group: int) -> None:
        """The leader of this group has ended: its number may become another's."""
        self._tell(f"forget {group}")

    def _tell(self, line: str) -> None:
        with suppress(BrokenPipeError):  # somebody has killed it
            os.write(self._writable, f"{line}\n".encode())

    def _close(self) -> None:
        _living.discard(self)
        os.close(self._writable)
        self._writable = -1


_living: WeakSet[Guardian] = WeakSet()


def _close_in_child() -> None:
    """A forked child would keep the pipe open beyond the supervisor's end, and thus the guardian waiting."""
    for guardian in list(_living):
        guardian._close()


os.register_at_fork(after_in_child=_close_in_child)
