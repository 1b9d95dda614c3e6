"""Commands whose standard error is a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Sequence

from processes import PATIENCE


class OnTerminal:
    """A running command with a pseudo-terminal of its own as its standard error."""

    def __init__(self, command: Sequence[str], **variables: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stderr=theirs,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TERM": "xterm", **variables},
        )
        os.close(theirs)

    def written(self) -> tuple[str, str]:
        """Its standard output, and all that it wrote to the terminal but for colours; it must end
        well.
        """
        shown = b""
        try:
            while chunk := os.read(self._ours, 4096):
                shown += chunk
        except OSError:  # Linux says so when nobody has the other end any more
            pass
        os.close(self._ours)
        out, _ = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0, shown.decode()
        return out, re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
