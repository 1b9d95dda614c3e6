"""What the process of a rank does before and after its own work, whoever has started it."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from ..channel import Channel, ChannelClosed
from ..errors import UsageError
from ..inherited import inherited_fds
from ..messages import Start

Work = Callable[[Start, Channel, int, list[int]], int]
"""Carries out what a Start message asks for, given its channel, the arena's descriptor and those that came with the
message; the exit status.
"""


def rank_main(module: str, starter: str, work: Work) -> NoReturn:
    """Take the Start message, do `work`, and end the process with its exit status.

    `module` and `starter` are for who runs it by hand: what it is, and who is to start it.
    """
    status = _status(module, starter, work)
    sys.stdout.flush()
    for thread in threading.enumerate():  # the model cache may still be written
        if not thread.daemon and thread is not threading.main_thread():
            thread.join()
    os._exit(status)  # everything is said: taking the libraries down in order would only keep the starter waiting


def _status(module: str, starter: str, work: Work) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the starter's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    fds = inherited_fds(os.environ)
    if fds is None:
        print(f"{module} is started by {starter} only", file=sys.stderr)
        return UsageError.exit_code
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the starter asks a late rank where it is
    channel = Channel.inherited(fds[0])
    try:
        start, came = channel.receive_with_fds()
        return work(start, channel, fds[1], came) if isinstance(start, Start) else 1
    except ChannelClosed:
        return 1
