"""The listener of agents: strangers that connect, an agent among them, and one on the same host."""

from __future__ import annotations

import errno
import os
import socket
import threading
from contextlib import ExitStack, suppress
from queue import SimpleQueue

import pytest
from processes import PATIENCE

from rankmesh.comm.processes.event_loop import EventLoop
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.transport.message_stream import receive
from rankmesh.orchestrator.agents.arena_holders import ArenaHolders
from rankmesh.orchestrator.agents.connections.stream_listener import StreamListener

pytestmark = pytest.mark.pure


def test_a_stranger_that_speaks_as_it_makes_room_for_another_is_no_fault() -> None:
    came = threading.Event()
    listener = StreamListener("127.0.0.1")

    def take(sock: socket.socket) -> None:
        sock.close()
        came.set()

    token = listener.expect(take)
    where = ("127.0.0.1", listener.port)
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
        listener.close()


def test_a_connection_that_cannot_be_kept_ends_alone() -> None:
    listener, came = StreamListener("127.0.0.1"), SimpleQueue[socket.socket]()

    def refuse(sock: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with ExitStack() as opened:
        opened.callback(listener.close)
        refused, kept = (
            opened.enter_context(socket.create_connection(("127.0.0.1", listener.port), PATIENCE))
            for _ in range(2)
        )
        refused.sendall(listener.expect(refuse))
        assert refused.recv(1) == b""
        kept.sendall(listener.expect(came.put))
        came.get(timeout=PATIENCE).close()


def test_an_agent_on_this_host_gets_the_arena_and_the_kernel_tells_of_its_last_holder() -> None:
    listener, loop, came = StreamListener("127.0.0.1"), EventLoop(), SimpleQueue[socket.socket]()
    arena, gone = OwnedArena(0, 1 << 24), threading.Event()
    with ExitStack() as opened:
        for one in (listener, loop, arena):
            opened.callback(one.close)
        token = listener.expect(came.put)
        agent = opened.enter_context(socket.socket(socket.AF_UNIX))
        agent.connect(f"\0{listener.local}")
        agent.sendall(token)
        holders = ArenaHolders(arena, opened.enter_context(came.get(timeout=PATIENCE)))
        _, (file, kept), _ = receive(agent, 1, 2)
        assert os.path.sameopenfile(file, arena.fd)
        ranks = os.dup(kept)
        holders.when_gone(loop, gone.set)
        for ended in (file, kept):
            os.close(ended)
            loop.turn(0)
        assert not gone.is_set()
        os.close(ranks)
        loop.turn(PATIENCE)
        assert gone.is_set()
