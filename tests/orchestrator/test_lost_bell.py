"""A rank that is stopped after its answer and before it has told anybody."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from moody import paused, replicas
from processes import PATIENCE
from served_models import echo

from rankmesh import Orchestrator
from rankmesh.comm.serving.caller_slots import CallerSlots
from rankmesh.comm.serving.orders import Answer, TensorRef
from rankmesh.comm.serving.ring import Ring


def test_an_answer_counts_though_nobody_rings(tmp_path: Path) -> None:
    given = np.arange(4, dtype=np.float32)
    with Orchestrator(echo(tmp_path, 4), hang_timeout=2.0) as orchestrator:
        (replica,) = replicas(orchestrator)
        with paused(orchestrator, 0):
            future = orchestrator.submit(given)
            incarnation, work = replica.incarnation, replica.state.inflight.first
            assert incarnation is not None and work is not None
            another_bell = os.eventfd(0)
            seats = CallerSlots(CallerSlots.create(), spare=False)
            # of another model: the input itself
            answer = Answer([TensorRef(work.inputs.region.offset, (4,))])
            Ring(incarnation.ranks.memory.ring_fd, another_bell, seats).reply(
                work.number, 0, answer
            )
            os.close(another_bell)
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], given)
        np.testing.assert_array_equal(orchestrator.predict(given)["y"], given)
        assert orchestrator.status().ranks[0].restarts == 0
