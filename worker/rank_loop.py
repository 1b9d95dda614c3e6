"""The process of one rank of an orchestrator: `python -m rankmesh.worker.rank_loop rank=R`.

The argument is for those who read `ps`: who the process is comes with the first message. It prepares its shard, says
that it is ready, then takes one order after the other until it is told to stop. It never imports the user's program.
"""

from __future__ import annotations

import os
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ..comm.arena import Arena
from ..comm.channel import Channel, ChannelClosed
from ..comm.errors import OutOfMemory, RankmeshError
from ..comm.messages import Ask, Failed, Ready, Start, Told
from ..comm.processes.lifeline import hold
from ..comm.processes.log_lines import write_levels
from ..comm.processes.parent import die_with
from ..comm.processes.quick_imports import quick_imports
from ..comm.processes.rank_main import rank_main
from ..comm.progress import Progress, Stage

with quick_imports():  # numpy
    from ..comm.serving.orders import ServeJob, Stop
    from ..comm.serving.ring import Ring
    from ..comm.serving.seats import Seats
    from ..comm.serving.tensor_arena import TensorArena

if TYPE_CHECKING:
    from .served import Served


def serve(start: Start, channel: Channel, arena_fd: int, fds: list[int]) -> int:
    """Prepare and serve; the exit status is 0 when told to stop, 1 when the model cannot be served."""
    job = msgspec.msgpack.decode(start.job, type=ServeJob).received(*fds)
    die_with(job.parent)
    write_levels()
    for fd in job.inherited:
        os.set_inheritable(fd, False)  # what a library starts here has no use of them
    if job.cores:
        os.sched_setaffinity(0, job.cores)
    arena = Arena.attach(arena_fd, start.rank.rank)
    hold(arena, start.rank.rank)
    return _serve(start, job, channel, arena)


def _serve(start: Start, job: ServeJob, channel: Channel, arena: Arena) -> int:
    try:
        with quick_imports():
            from ..comm.rendezvous import ChannelMeeting
            from .served import Served

        meeting = ChannelMeeting(start.rank, channel, arena, start.timeout, "the orchestrator")
        served = Served.open(job, meeting, TensorArena(job.tensors), Progress(arena, start.rank.rank))
        ring = Ring(job.ring, job.bell, Seats(job.seats, job.spare))
        meeting.enter(Stage.RUNNING)
        channel.send(Ready(msgspec.msgpack.encode(served.report)))
    except ChannelClosed:
        raise
    except RankmeshError as error:
        channel.send(Failed(type(error).__name__, str(error)))
        return 1
    except MemoryError as error:
        channel.send(Failed(OutOfMemory.__name__, str(error) or "the host has no memory left for the model"))
        return 1
    except Exception as error:  # a fault of ours or of a library: the trace goes to the rank's log
        traceback.print_exc()
        channel.send(Failed(RankmeshError.__name__, f"{type(error).__name__}: {error}"))
        return 1
    threading.Thread(target=_take_questions, args=(served, channel), name="rankmesh-questions", daemon=True).start()
    _take_orders(served, ring, start.rank.rank)
    Progress(arena, start.rank.rank).stage = Stage.DONE  # the model cache may still be written
    return 0


def _take_orders(served: Served, ring: Ring, rank: int) -> None:
    number = 0
    while not isinstance(order := ring.take(number, rank), Stop):
        if order is not None:
            served.carry_out(number, order, ring)
        number += 1


def _take_questions(served: Served, channel: Channel) -> None:
    """Answer what the orchestrator asks beside its orders, which are carried out meanwhile."""
    with suppress(ChannelClosed):
        while isinstance(ask := channel.receive(), Ask):
            channel.send(Told(ask.number, served.reply(ask.question)))


if __name__ == "__main__":
    rank_main("rankmesh.worker.rank_loop", "rankmesh.Orchestrator", serve)
