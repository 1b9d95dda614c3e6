"""The process of one rank: `python -m rankmesh.launch.rank_main rank=R`, started by a supervisor.

The argument is for those who read `ps`: who the process is comes with the first message.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading

import msgspec

from ..comm.arena import Arena
from ..comm.channel import Channel, ChannelClosed
from ..comm.errors import RankmeshError, UsageError
from ..comm.inherited import inherited_fds
from ..comm.messages import Failed, Finished, Message, Start
from ..comm.processes.quick_imports import quick_imports


def main() -> int:
    """Take the Start message, do the job, send its report or its error; the exit status is 0 or 1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    fds = inherited_fds(os.environ)
    if fds is None:
        print("rankmesh.launch.rank_main is started by `rankmesh run` only", file=sys.stderr)
        return UsageError.exit_code
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the supervisor asks a late rank where it is
    channel = Channel.inherited(fds[0])
    try:
        start = channel.receive()
        if not isinstance(start, Start):
            return 1
        answer = _answer(start, channel, fds[1])
        channel.send(answer)
    except ChannelClosed:
        return 1
    return 0 if isinstance(answer, Finished) else 1


def _answer(start: Start, channel: Channel, arena_fd: int) -> Message:
    try:
        with quick_imports():
            from ..comm.rendezvous import ChannelMeeting
            from .job import RunJob
            from .run_rank import run_rank

        arena = Arena.attach(arena_fd, start.rank.rank)
        job = msgspec.msgpack.decode(start.job, type=RunJob)
        if start.rank.local_size < start.rank.world_size:
            from .rank_abroad import run_rank_abroad

            return Finished(run_rank_abroad(start, job, channel, arena))
        meeting = ChannelMeeting(start.rank, channel, arena, start.timeout)
        return Finished(msgspec.msgpack.encode(run_rank(job, meeting)))
    except ChannelClosed:
        raise
    except RankmeshError as error:
        return Failed(type(error).__name__, str(error))
    except Exception as error:  # a fault of ours or of a library: the trace goes to the rank's log
        import traceback

        traceback.print_exc()
        return Failed(RankmeshError.__name__, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    for thread in threading.enumerate():  # the model cache may still be written
        if not thread.daemon and thread is not threading.main_thread():
            thread.join()
    os._exit(status)  # everything is said: taking the libraries down in order would only keep the supervisor waiting
