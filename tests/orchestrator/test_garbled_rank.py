"""A rank that says what is no message: it is named, its group restarts, and the orchestrator serves
on.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from leftovers import nothing_left
from moody import expected, inputs, moody, wait_ready
from packets import NESTED, unknown_field
from processes import wait_until

from rankmesh import Orchestrator
from rankmesh.comm.transport.messages import ControlReply, Ready, encode

_PIDFD_GETFD = 438


def say(pid: int, data: bytes) -> None:
    """Write a message into the rank's end of its channel, as if the rank had."""
    pidfd = os.pidfd_open(pid)
    fd = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, channel_of(pid), 0)
    os.close(pidfd)
    if fd < 0:
        pytest.skip("this user may not reach into another process")
    os.write(fd, len(data).to_bytes(8, "little") + data)
    os.close(fd)


def channel_of(pid: int) -> int:
    return int(psutil.Process(pid).environ()["RANKMESH_CHANNEL"].partition(".")[0])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            unknown_field(encode(Ready(b"")), NESTED),
            "what came over the channel is no message: maximum recursion depth",
        ),
        (
            encode(Ready(unknown_field(msgspec.msgpack.encode({"path": ""}), NESTED))),
            "a message, Ready, that does not",
        ),
        (encode(ControlReply(7, b"")), "a reply to question 7, which is not open"),
    ],
)
def test_group_of_a_rank_that_sends_what_is_no_message_restarts(
    tmp_path: Path, data: bytes, said: str
) -> None:
    given = inputs()
    with nothing_left(), Orchestrator(moody(tmp_path)) as orchestrator:
        wait_ready(orchestrator)
        pid = orchestrator.status().ranks[0].pid
        assert pid is not None
        say(pid, data)
        wait_until(lambda: orchestrator.status().ranks[0].restarts == 1, "the rank to start again")
        np.testing.assert_array_equal(orchestrator.predict(given)["y"], expected(given, 1))
        assert said in orchestrator.status().ranks[0].last_error
