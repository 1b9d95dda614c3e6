"""Who ends what the ranks have started when their supervisor is killed and cannot."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from types import TracebackType

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


class Guardian:
    """A shell that waits beside the ranks; a context manager whose ordinary end makes it do nothing.

    A shell, not a Python, because it is there in a millisecond and takes a megabyte.
    """

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
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._tell("done")
        os.close(self._writable)
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
