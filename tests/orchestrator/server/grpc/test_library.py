"""The gRPC library as the server loads it, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("grpc")

IMPORT = """
import os
from rankmesh.orchestrator.server.grpc.transport.library import grpc
assert grpc.aio
print(os.environ.get("GRPC_EXPERIMENTS"))
"""

POLL = """
import asyncio, os, threading
from rankmesh.orchestrator.server.grpc.transport.library import grpc, schedule_poller

def policies():
    return [os.sched_getscheduler(thread.native_id) for thread in threading.enumerate()]

async def main():
    server = grpc.aio.server()
    for preempt in (True, False, False, True):
        schedule_poller(preempt)
        print(*sorted(policies()))
    await server.stop(None)

asyncio.run(main())
"""


def loaded(**variables: str) -> subprocess.CompletedProcess[str]:
    """A process that loads the library, with these variables."""
    given = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    return subprocess.run(
        [sys.executable, "-P", "-c", IMPORT],
        env={**given, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_the_setting_is_known_to_this_version_and_not_left_to_other_processes() -> None:
    found = loaded()
    assert found.stdout == "None\n"
    assert found.stderr == ""


def test_a_setting_of_the_user_stays() -> None:
    found = loaded(GRPC_EXPERIMENTS="chosen_by_the_user")
    assert found.stdout == "chosen_by_the_user\n"
    assert "event_engine_listener" not in found.stderr


def test_the_poller_alone_preempts_no_thread_until_cores_are_needed() -> None:
    command = [sys.executable, "-P", "-c", POLL]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    alike, apart = f"{os.SCHED_OTHER} {os.SCHED_OTHER}", f"{os.SCHED_OTHER} {os.SCHED_BATCH}"
    assert found.stdout.splitlines() == [alike, apart, apart, alike]
