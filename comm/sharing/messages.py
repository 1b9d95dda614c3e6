"""Messages of a broker and its peers: one per packet, as MessagePack; and proofs of the handle."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from secrets import token_bytes
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from ..decoding import guarded
from ..errors import UsageError
from ..transport.local_socket import socket_path

NONCE_BYTES = PROOF_BYTES = 32
LONGEST = 8192
"""Bytes of the longest message."""

MOST_FILES = 200
"""Descriptors in one packet, the lease aside; the kernel takes 253 (SCM_MAX_FD). A packet with
fewer is the last one.
"""

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]
Nonce: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Proof: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]
Pid: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Side: TypeAlias = Literal["owner", "user"]


class Hello(msgspec.Struct, frozen=True, tag=True):
    """First message of a listed peer: prove that you know the handle that led here."""

    nonce: Nonce


class Attach(msgspec.Struct, frozen=True, tag=True):
    """Answer to Proven: the peer's own proof, and the model and device whose weights it wants."""

    proof: Proof
    model: Text
    device: Text


class More(msgspec.Struct, frozen=True, tag=True):
    """Request of a listed peer: the files from number `first` on."""

    first: Annotated[int, msgspec.Meta(ge=0, lt=2**20)]


class Identify(msgspec.Struct, frozen=True, tag=True):
    """First message of a process of the owner's user: which rank is this?"""


class Update(msgspec.Struct, frozen=True, tag=True):
    """First message of a process of the owner's user: put the weights of the attached file into
    the model.

    `layout` gives the axis along which full weights are cut for the ranks, by name or pattern.
    """

    name: Text
    delta: bool = False
    layout: Annotated[
        dict[Text, Annotated[int, msgspec.Meta(ge=-64, le=63)]], msgspec.Meta(max_length=100)
    ] = {}


class Proven(msgspec.Struct, frozen=True, tag=True):
    """Answer to Hello: the broker's proof, and a nonce for the peer's.

    `owner` and `user` are the process ids of broker and peer, as the broker sees them.
    """

    nonce: Nonce
    owner: Pid
    user: Pid
    proof: Proof


class Granted(msgspec.Struct, frozen=True, tag=True):
    """Answer to Attach and More: `files` descriptors, and the peer's number among the holders.

    In the answer to Attach one more stands before them: the peer's own lease (lease.py).
    """

    files: int
    slot: int


class Identified(msgspec.Struct, frozen=True, tag=True):
    """Answer to Identify: the rank that owns the weights."""

    rank: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """Answer to Update: what was done."""

    text: Text


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Answer to any request: no, and why."""

    reason: Text


BrokerRequest: TypeAlias = Hello | Attach | More | Identify | Update
BrokerReply: TypeAlias = Proven | Granted | Identified | Done | Refused
encode = msgspec.msgpack.Encoder().encode
decode_request: Callable[[bytes], BrokerRequest] = guarded(msgspec.msgpack.Decoder(BrokerRequest))
decode_reply: Callable[[bytes], BrokerReply] = guarded(msgspec.msgpack.Decoder(BrokerReply))


class ProofExchange(NamedTuple):
    """The exchange that a proof is bound to: two nonces, and the process ids of both ends.

    The kernel gives each end the process id of the other. A process in between has another id, so
    a proof that it receives is of no use at the other end.
    """

    user_nonce: bytes
    owner_nonce: bytes
    owner: int
    user: int


def broker_path(handle: int) -> str:
    """The path of the socket of a handle's broker; it does not tell the handle.

    Raises UsageError where `handle` is out of range.
    """
    if not 0 < handle < 2**63:
        raise UsageError(
            f"the handle of shared weights is a number from 1 to 2**63 - 1, got {handle}: pass on "
            "what get_model_info('shareable_weight_mem_handle') gives in the owner."
        )
    return socket_path(f"weights {handle}")


def nonce() -> bytes:
    """A number used once."""
    return token_bytes(NONCE_BYTES)


def proof(handle: int, side: Side, exchange: ProofExchange) -> bytes:
    """The HMAC-SHA256 by which this side of an exchange shows that it knows `handle`."""
    label = b"rankmesh, proof of the handle of shared weights: "
    key = sha256(label + handle.to_bytes(8, "big")).digest()
    return hmac.digest(key, encode((side, *exchange)), "sha256")


def proves(given: bytes, handle: int, side: Side, exchange: ProofExchange) -> bool:
    """Whether `given` is that proof; a wrong one takes as long."""
    return hmac.compare_digest(given, proof(handle, side, exchange))
