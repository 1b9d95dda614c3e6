"""A server that ends while its models start: their end, later, has no loop to tell."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rankmesh.comm.errors import ModelError
from rankmesh.orchestrator.orchestrator import Orchestrator
from rankmesh.orchestrator.server.frontend.settings import ServerSettings
from rankmesh.orchestrator.server.lifecycle.server_loop import ServerLoop

pytestmark = pytest.mark.pure


def test_models_that_fail_after_the_end_are_not_told() -> None:
    at_work, ended = threading.Event(), threading.Event()
    starter = []

    def start() -> Orchestrator:
        starter.append(threading.current_thread())
        at_work.set()
        ended.wait()
        raise ModelError("a model that takes long, and fails.")

    async def serve() -> None:
        server = ServerLoop(ServerSettings(host="127.0.0.1", port=0), "1")
        running = asyncio.create_task(server.run(start))
        await asyncio.to_thread(at_work.wait)
        server.stop()
        await running

    asyncio.run(serve())
    faults: list[object] = []
    before, threading.excepthook = threading.excepthook, faults.append
    try:
        ended.set()
        starter[0].join()
    finally:
        threading.excepthook = before
    assert faults == []
