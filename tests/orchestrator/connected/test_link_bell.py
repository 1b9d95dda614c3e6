"""The bell of a link: no ring is lost, whenever it comes."""

from __future__ import annotations

import os
import select
import socket

import pytest

from rankmesh.orchestrator.connected.link import EndpointLink

pytestmark = pytest.mark.pure


def test_a_ring_while_the_bell_is_read_does_not_silence_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, other = socket.socketpair()
    with ours, other:
        link = EndpointLink(ours, "the orchestrator")
        read = os.eventfd_read

        def rung_just_then(bell: int) -> int:
            link.ring()
            return read(bell)

        monkeypatch.setattr(os, "eventfd_read", rung_just_then)
        link.ring()
        link.heard()
        link.ring()
        assert select.select([link.bell], [], [], 0)[0] == [link.bell]
