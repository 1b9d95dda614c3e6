"""Which ranks of a server preempt other threads as they wake, by their scheduling policies."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from processes import wait_until
from served_grpc import connected, infer_message
from served_http import serving
from served_models import echo
from server_children import ranks_of

SIZE = 16
CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize("replicas", [1, CORES])
def test_ranks_that_leave_a_core_free_preempt_no_thread_once_small_calls_come(
    tmp_path: Path, replicas: int
) -> None:
    wanted = os.SCHED_BATCH if replicas < CORES else os.SCHED_OTHER
    message = infer_message("echo", {"x": np.ones(SIZE, np.float32)})
    options = "--grpc-port", "0", "--replicas", str(replicas), "--threads", "1"
    with serving(echo(tmp_path, SIZE), *options) as server, connected(server.grpc_port) as client:
        before = ranks_of(server.process.pid)
        assert [*map(os.sched_getscheduler, before)] == [os.SCHED_OTHER] * replicas

        def repeat_calls() -> bool:
            calls = [client.method("ModelInfer").future(message) for _ in range(4 * replicas)]
            assert all(
                np.frombuffer(one.result().raw_output_contents[0], "f4").sum() == SIZE
                for one in calls
            )
            return {*map(os.sched_getscheduler, ranks_of(server.process.pid))} == {wanted}

        wait_until(repeat_calls, "all ranks to see the policy")
        os.kill(ranks_of(server.process.pid)[0], 9)
        wait_until(
            lambda: repeat_calls() and {*ranks_of(server.process.pid)} != {*before},
            "the rank that starts in place of a killed one to see it",
        )
