"""Tensor sockets: which of them end after a silence of the other host."""

from __future__ import annotations

import socket

import pytest

from rankmesh.comm.transport.tensor_socket import prepare, prepare_watched

pytestmark = pytest.mark.pure


def test_agents_are_given_up_after_a_silence_and_busy_ranks_are_not() -> None:
    with socket.socket() as agent, socket.socket() as rank:
        prepare(agent, 2.5)
        prepare_watched(rank)
        for one, silence, kept in (agent, 2500, 0), (rank, 0, 1):
            assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == silence
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == kept
            assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
