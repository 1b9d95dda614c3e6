"""The handle of shared weights: where its owner listens, and proofs of both ends that they know it."""

from __future__ import annotations

import hmac
from hashlib import sha256
from secrets import token_bytes
from typing import Literal, NamedTuple

import msgspec

from ..errors import UsageError
from ..local_socket import socket_path

NONCE_BYTES = PROOF_BYTES = 32
_KEY = b"rankmesh, proof of the handle of shared weights: "
_encode = msgspec.msgpack.Encoder().encode


def broker_path(handle: int) -> str:
    """The socket of a handle's broker; its name does not tell the handle."""
    if not 0 < handle < 2**63:
        raise UsageError(f"the handle of shared weights is a number from 1 to 2**63 - 1, got {handle}: pass on what "
                         f"get_model_info('shareable_weight_mem_handle') gives in the owner.")
    return socket_path(f"weights {handle}")


class Exchange(NamedTuple):
    """What a proof is bound to: numbers used once, and both processes as the kernel names them to the other end.

    A process in between has another number: what it is proved is of no use to it at the other end.
    """

    user_nonce: bytes
    owner_nonce: bytes
    owner: int
    user: int


def nonce() -> bytes:
    """A number used once."""
    return token_bytes(NONCE_BYTES)


def proof(handle: int, side: Literal["owner", "user"], exchange: Exchange) -> bytes:
    """What only a process that knows `handle` can say, as this side of this exchange (HMAC-SHA256)."""
    key = sha256(_KEY + handle.to_bytes(8, "big")).digest()
    return hmac.digest(key, _encode((side, *exchange)), "sha256")


def proves(given: bytes, handle: int, side: Literal["owner", "user"], exchange: Exchange) -> bool:
    """Whether `given` is that proof; takes as long for a wrong one."""
    return hmac.compare_digest(given, proof(handle, side, exchange))
