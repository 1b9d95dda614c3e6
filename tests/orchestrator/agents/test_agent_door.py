"""The door of agents: strangers that press in, and an agent that comes among them."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, suppress

import pytest
from processes import PATIENCE

from rankmesh.orchestrator.agents.agent_door import AgentDoor

pytestmark = pytest.mark.pure


def test_a_stranger_that_speaks_as_it_makes_room_for_another_is_no_fault() -> None:
    came = threading.Event()
    door = AgentDoor("127.0.0.1")

    def take(sock: socket.socket) -> None:
        sock.close()
        came.set()

    token = door.expect(take)
    where = ("127.0.0.1", door.port)
    try:
        with ExitStack() as opened:
            strangers = []
            for turn in range(400):
                strangers.append(opened.enter_context(socket.create_connection(where)))
                with suppress(OSError):  # it had to make room before
                    strangers[max(0, turn - 64)].sendall(b"!")
        with socket.create_connection(where) as agent:
            agent.sendall(token)
            assert came.wait(PATIENCE)
    finally:
        door.close()
