"""One rank of `rankmesh run` with ranks on other hosts: it meets them by itself, and every rank gets all reports."""

from __future__ import annotations

import os

import msgspec

from ..comm.arena import Arena
from ..comm.channel import Channel
from ..comm.identity import Identity
from ..comm.key_file import keys_from_environment
from ..comm.messages import Start
from ..comm.place import place_from
from ..comm.remote_meeting import meet_remotely
from .job import RunJob
from .run_rank import run_rank


def run_rank_abroad(start: Start, job: RunJob, channel: Channel, arena: Arena) -> bytes:
    """Carry out `job`; the reports of all ranks, encoded. Raises the errors of comm/errors.py, and tells the others."""
    place = place_from(Identity(start.rank, ()), os.environ)
    meeting = meet_remotely(start.rank, place, keys_from_environment(os.environ), start.timeout, (channel, arena))
    try:
        report = run_rank(job, meeting)
        return msgspec.msgpack.encode(meeting.exchange(msgspec.msgpack.encode(report)))
    except Exception as error:
        meeting.fail(error)
        raise
    finally:
        meeting.leave()
