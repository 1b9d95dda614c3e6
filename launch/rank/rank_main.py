"""Process of one rank of `rankmesh run`: `python -m rankmesh.launch.rank.rank_main rank=R`.

A supervisor starts it. The argument is for readers of `ps`: the first message has the rank.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

from ...comm.decoding import decode_sent
from ...comm.errors import RankmeshError, error_parts
from ...comm.job_memory.arena import Arena
from ...comm.loggers import log_as_rank
from ...comm.processes.quick_imports import quick_imports
from ...comm.processes.rank_main import rank_main
from ...comm.transport.channel import Channel
from ...comm.transport.message_stream import ChannelClosed
from ...comm.transport.messages import Failed, Finished, Message, Start

if TYPE_CHECKING:
    from .job import RunJob


def carry_out(start: Start, channel: Channel, arena_fd: int, _: list[int]) -> int:
    """Do the job, send its report or its error; the exit status is 0 or 1."""
    log_as_rank(start.rank.rank)
    answer = _answer(start, channel, arena_fd)
    channel.send(answer)
    return 0 if isinstance(answer, Finished) else 1


def _answer(start: Start, channel: Channel, arena_fd: int) -> Message:
    try:
        with quick_imports():
            from ...comm.rendezvous.rendezvous import ChannelRendezvous
            from .job import RunJob
            from .run_rank import run_rank

        arena = Arena.attach(arena_fd, start.rank.rank)
        job = decode_sent(start.job, RunJob, "the launcher")
        if start.rank.local_size < start.rank.world_size:
            return Finished(_run_with_other_hosts(start, job, channel, arena))
        rendezvous = ChannelRendezvous(start.rank, channel, arena, start.timeout)
        return Finished(msgspec.msgpack.encode(run_rank(job, rendezvous)))
    except ChannelClosed:
        raise
    except Exception as error:
        name, text, trace = error_parts(error)
        if not isinstance(error, RankmeshError):
            sys.stderr.write(trace)  # into the rank's log
        return Failed(name, text)


def _run_with_other_hosts(start: Start, job: RunJob, channel: Channel, arena: Arena) -> bytes:
    """Carry out `job` with ranks on other hosts, and return the encoded reports of all ranks.

    Raises the errors of comm/errors.py, after it has told the other ranks.
    """
    from ...comm.job.identity import LaunchIdentity
    from ...comm.rendezvous.address import address_from
    from ...comm.rendezvous.remote_rendezvous import meet_remotely
    from ...comm.transport.key_file import keys_from_environment
    from .run_rank import run_rank

    place = address_from(LaunchIdentity(start.rank, ()), os.environ)
    keys = keys_from_environment(os.environ)
    rendezvous = meet_remotely(start.rank, place, keys, start.timeout, (channel, arena))
    try:
        report = run_rank(job, rendezvous)
        return msgspec.msgpack.encode(rendezvous.exchange(msgspec.msgpack.encode(report)))
    except Exception as error:
        rendezvous.fail(error)
        raise
    finally:
        rendezvous.leave()


if __name__ == "__main__":
    rank_main("rankmesh.launch.rank.rank_main", "`rankmesh run`", carry_out)
