"""Invitation to a frame stream: tells where it is opened, and its token and keys."""

from __future__ import annotations

import msgspec


class StreamInvitation(msgspec.Struct, frozen=True):
    """For one connection, which begins with `token`; `clear`: its tensors are not sealed.

    The agent that gets it fills in the `host`.
    """

    port: int
    token: bytes
    listener_key: bytes
    caller_key: bytes
    clear: bool
    host: str = ""
