"""The process of one rank: `python -m rankmesh.launch.rank_main rank=R`, started by a supervisor.

The argument is for those who read `ps`: who the process is comes with the first message.
"""

from __future__ import annotations

import msgspec

from ..comm.arena import Arena
from ..comm.channel import Channel, ChannelClosed
from ..comm.errors import OutOfMemory, RankmeshError, out_of_memory
from ..comm.loggers import log_as_rank
from ..comm.messages import Failed, Finished, Message, Start
from ..comm.processes.quick_imports import quick_imports
from ..comm.processes.rank_main import rank_main


def carry_out(start: Start, channel: Channel, arena_fd: int, _: list[int]) -> int:
    """Do the job, send its report or its error; the exit status is 0 or 1."""
    log_as_rank(start.rank.rank)
    answer = _answer(start, channel, arena_fd)
    channel.send(answer)
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
    except MemoryError as error:
        return Failed(OutOfMemory.__name__, out_of_memory(error))
    except Exception as error:  # a fault of ours or of a library: the trace goes to the rank's log
        import traceback

        traceback.print_exc()
        return Failed(RankmeshError.__name__, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    rank_main("rankmesh.launch.rank_main", "`rankmesh run`", carry_out)
