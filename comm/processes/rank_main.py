"""Main function of rank processes: takes the Start message, does the work, and ends the process."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from ..errors import RankFailed, UsageError
from ..job.environment import inherited_fds
from ..transport.channel import Channel
from ..transport.message_stream import ChannelClosed
from ..transport.messages import Failed, Start

_libc = ctypes.CDLL(None)  # loaded before any fork
Work = Callable[[Start, Channel, int, list[int]], int]
"""Does the job of a Start message, and returns the exit status of the process.

Gets the message, the channel, the arena's descriptor, and the descriptors that came along.
"""


def rank_main(module: str, starter: str, work: Work) -> NoReturn:
    """Take the Start message, do `work`, and end the process with its exit status.

    `module` and `starter` name this program and the one that starts it, for an error message.
    """
    status = _status(module, starter, work)
    sys.stdout.flush()
    for thread in threading.enumerate():  # the model cache may still be written
        if not thread.daemon and thread is not threading.main_thread():
            thread.join()
    os._exit(status)  # unloading the libraries in order would only keep the starter waiting


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
    except RankFailed as error:  # the job cannot be read
        channel.send(Failed("RankFailed", str(error)))
        return 1


def set_parent_death_signal(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which started it, ends; at once if it has.

    The setting outlasts exec.
    """
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
