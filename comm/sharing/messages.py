"""What a broker and its peers say: one message per packet, as MessagePack."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ..decoding import guarded
from .handle import NONCE_BYTES, PROOF_BYTES

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]
Nonce: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Proof: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]
Pid: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Axis: TypeAlias = Annotated[int, msgspec.Meta(ge=-64, le=63)]
LONGEST = 8192
"""Bytes of the longest message."""

MOST_FILES = 200
"""Descriptors in one packet, the lease aside; the kernel takes 253 (SCM_MAX_FD). Fewer are the last there are."""


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Peer to broker, first: prove that you know the handle by which I found you."""

    nonce: Nonce


class Attach(msgspec.Struct, frozen=True, tag=True):
    """Peer to broker, behind Proven: I know the handle, too, and want its weights for this model on this device."""

    proof: Proof
    model: Text
    device: Text


class More(msgspec.Struct, frozen=True, tag=True):
    """A listed peer to its broker: the files from number `first` on."""

    first: Annotated[int, msgspec.Meta(ge=0, lt=2**20)]


class Identify(msgspec.Struct, frozen=True, tag=True):
    """A process of the owner's user to a broker, first: which rank are you?"""


class Update(msgspec.Struct, frozen=True, tag=True):
    """A process of the owner's user to a broker, first: put the weights of the file that comes along into the model.

    `layout` says along which axis full weights are cut for the ranks, by name or pattern.
    """

    name: Text
    delta: bool = False
    layout: Annotated[dict[Text, Axis], msgspec.Meta(max_length=100)] = {}


class Proven(msgspec.Struct, frozen=True, tag=True):
    """Broker to a listed peer: I know the handle; prove that you do. `owner` and `user` are our process ids to me."""

    nonce: Nonce
    owner: Pid
    user: Pid
    proof: Proof


class Granted(msgspec.Struct, frozen=True, tag=True):
    """Broker to peer: here are `files` descriptors; `slot` is the peer's number among those that hold the weights.

    In the answer to Attach one more stands before them: the peer's lease (lease.py), which is the peer's alone.
    """

    files: int
    slot: int


class Identified(msgspec.Struct, frozen=True, tag=True):
    """Broker to peer: this is the rank whose weights they are."""

    rank: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """Broker to peer: what was asked for is done; `text` says what."""

    text: Text


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Broker to peer: no, and why."""

    reason: Text


Request: TypeAlias = Hello | Attach | More | Identify | Update
Reply: TypeAlias = Proven | Granted | Identified | Done | Refused
encode = msgspec.msgpack.Encoder().encode
_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
decode_request, decode_reply = guarded(_REQUESTS), guarded(_REPLIES)
