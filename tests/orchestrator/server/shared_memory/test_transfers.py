"""Transfers from regions of clients that go on when their request has ended."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
from processes import PATIENCE
from served_models import doubler

import rankmesh
from rankmesh.orchestrator.server.inference import InferenceService
from rankmesh.orchestrator.server.shared_memory.shared_tensor import SharedTensor
from rankmesh.orchestrator.server.shared_memory.transfers import with_shared_inputs

SHAPE = (9 << 18, 4)
"""Of more bytes than the loop copies itself."""


class SlowTensor:
    """A client's tensor of ones, which comes when the test says so."""

    size = 4 * SHAPE[0] * SHAPE[1]

    def __init__(self) -> None:
        self.begun, self.wanted, self.ended = (threading.Event() for _ in range(3))
        self._left, self._lock = self.size, threading.Lock()

    def read(self, memory: memoryview, start: int) -> None:
        self.begun.set()
        self.wanted.wait(PATIENCE)
        memory[:] = b"\1" * len(memory)
        with self._lock:
            self._left -= len(memory)
        if not self._left:
            self.ended.set()


def test_memory_of_a_cancelled_request_is_no_others_while_it_is_read_into(tmp_path: Path) -> None:
    async def ask(orchestrator: rankmesh.Orchestrator) -> list[np.ndarray[Any, Any]]:
        service = InferenceService(orchestrator, asyncio.get_running_loop())
        model, slow = service.catalog.find("doubler"), SlowTensor()
        shared = {"x": (SHAPE, cast(SharedTensor, slow))}
        bias = {"bias": np.zeros(1, np.float32)}
        reading = asyncio.create_task(with_shared_inputs(service, model, bias, shared))
        await asyncio.to_thread(slow.begun.wait, PATIENCE)
        reading.cancel()
        await asyncio.wait((reading,))
        del reading
        others = [await service.buffers(model, {"x": SHAPE}) for _ in range(2)]
        for one in others:
            one["x"][...] = 0
        slow.wanted.set()
        await asyncio.to_thread(slow.ended.wait, PATIENCE)
        assert slow.ended.is_set()
        return [one["x"].copy() for one in others]

    with rankmesh.Orchestrator(doubler(tmp_path)) as orchestrator:
        for found in asyncio.run(ask(orchestrator)):
            assert not found.any()
