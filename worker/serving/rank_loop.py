"""Process of one rank of an orchestrator: `python -m rankmesh.worker.serving.rank_loop rank=R`.

Other end of the ring: an order comes in, `ModelServer` runs its `Program` for it, and the answer
goes back to the scheduler.

The argument is for readers of `ps`: the first message has the rank. The process prepares its shard,
reports that it is ready, and takes orders until one tells it to stop. It never imports the user's
program.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ...comm.decoding import decode_sent
from ...comm.errors import RankmeshError, error_parts
from ...comm.host.resources import memory_limit
from ...comm.job_memory.arena import Arena
from ...comm.job_memory.exit_flag import hold_exit_flag
from ...comm.job_memory.progress import Progress, Stage
from ...comm.loggers import write_levels
from ...comm.processes.quick_imports import quick_imports
from ...comm.processes.rank_main import rank_main, set_parent_death_signal
from ...comm.transport.channel import Channel
from ...comm.transport.message_stream import ChannelClosed
from ...comm.transport.messages import ControlReply, ControlRequest, Failed, Ready, Start

with quick_imports():  # numpy
    from ...comm.request_memory.idle_memory import IDLE_SECONDS, IdleMemory
    from ...comm.request_memory.owned_arena import OwnedArena
    from ...comm.request_memory.tensor_arena import TensorArena
    from ...comm.serving.caller_slots import CallerSlots
    from ...comm.serving.orders import ModelReport, ServeJob, Stop
    from ...comm.serving.ring import Ring

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...comm.rendezvous.rendezvous import ChannelRendezvous, Rendezvous
    from .order_source import OrderServer, OrderSource

    Opener = Callable[[ServeJob, Rendezvous, TensorArena, Progress], OrderServer]


def serve(start: Start, channel: Channel, arena_fd: int, fds: list[int]) -> int:
    """Prepare and serve; the exit status is 0 when told to stop, 1 when the model cannot be run."""
    job = decode_sent(start.job, ServeJob, "the orchestrator").received(*fds)
    set_parent_death_signal(job.parent)
    write_levels()
    for fd in job.inherited:
        os.set_inheritable(fd, False)  # what a library starts here has no use of them
    if job.cores:
        os.sched_setaffinity(0, job.cores)
    arena = Arena.attach(arena_fd, start.rank.rank)
    hold_exit_flag(arena, start.rank.rank)
    return _serve(start, job, channel, arena)


def _serve(start: Start, job: ServeJob, channel: Channel, arena: Arena) -> int:
    try:
        with quick_imports():
            open_model = _opener(job)
            rendezvous = _rendezvous(start, job, channel, arena)
        tensors = _tensors(job)
        served = open_model(job, rendezvous, tensors, Progress(arena, start.rank.rank))
        orders = _order_source(job, tensors, served.report, start.rank.rank)
        rendezvous.enter(Stage.RUNNING)
        channel.send(Ready(msgspec.msgpack.encode(served.report)))
    except ChannelClosed:
        raise
    except Exception as error:
        name, text, trace = error_parts(error)
        if not isinstance(error, RankmeshError):
            sys.stderr.write(trace)  # into the rank's log
        channel.send(Failed(name, text))
        return 1
    threading.Thread(
        target=_take_questions, args=(served, channel), name="rankmesh-questions", daemon=True
    ).start()
    try:
        _take_orders(served, orders, start.rank.rank)
    except ConnectionError as error:
        sys.stderr.write(f"The connection of its requests has ended: {error}\n")
        return 1
    Progress(arena, start.rank.rank).stage = Stage.DONE  # the model cache may still be written
    return 0


def _rendezvous(start: Start, job: ServeJob, channel: Channel, arena: Arena) -> ChannelRendezvous:
    """How the ranks meet, on one host or several; imports only what that needs."""
    parts = (start.rank, channel, arena, start.timeout, "the orchestrator")
    if job.address:
        from ...comm.rendezvous.spanning_rendezvous import SpanningRendezvous

        return SpanningRendezvous(*parts, job.address)
    from ...comm.rendezvous.rendezvous import ChannelRendezvous

    return ChannelRendezvous(*parts)


def _opener(job: ServeJob) -> Opener:
    """The function that opens the model of a job; imports only what that needs."""
    if job.decoder is not None:
        from .step_server import open_decoder

        return open_decoder
    if job.function is not None:
        from .python_model import open_function

        return open_function
    from .shard_model import open_shard

    return open_shard


def _tensors(job: ServeJob) -> TensorArena:
    """The memory of requests' tensors: of this rank alone, where they come over a connection."""
    if job.invitation is None:
        return TensorArena(job.tensors)
    os.close(job.tensors)
    arena = OwnedArena(0, memory_limit().size)
    threading.Thread(target=_trim, args=(arena,), name="rankmesh-trim", daemon=True).start()
    return arena


def _trim(arena: OwnedArena) -> None:
    """Free the memory of requests whenever none has come for a while."""
    memory = IdleMemory(arena)
    while memory.look():
        time.sleep(IDLE_SECONDS)


def _order_source(
    job: ServeJob, tensors: TensorArena, report: ModelReport, rank: int
) -> OrderSource:
    """Where orders come from; imports only what that needs."""
    if job.invitation is None or not isinstance(tensors, OwnedArena):
        return Ring(job.ring, job.bell, CallerSlots(job.seats, job.spare))
    from .order_connection import OrderConnection

    return OrderConnection.opened(job.invitation, tensors, report, rank, bool(job.cores))


def _take_orders(served: OrderServer, orders: OrderSource, rank: int) -> None:
    number = 0
    while not isinstance(order := orders.take(number, rank), Stop):
        if order is not None:
            served.carry_out(number, order, orders)
        number += 1


def _take_questions(served: OrderServer, channel: Channel) -> None:
    """Answer what the orchestrator asks beside its orders, which are carried out meanwhile."""
    with suppress(ChannelClosed):
        while isinstance(ask := channel.receive(), ControlRequest):
            channel.send(ControlReply(ask.number, served.reply(ask.question)))


if __name__ == "__main__":
    rank_main("rankmesh.worker.serving.rank_loop", "rankmesh.Orchestrator", serve)
