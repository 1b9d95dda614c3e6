"""Messages between a supervisor and its ranks: msgspec structs, encoded as MessagePack."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ..decoding import guarded
from ..job.rank import Rank
from .stream_invitation import StreamInvitation

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=1000)]


class Start(msgspec.Struct, frozen=True, tag=True):
    """Supervisor to rank, first: its rank, and its job as the launcher encoded it."""

    rank: Rank
    job: bytes
    timeout: float  # seconds for collectives and exchanges; 0: no limit


class Join(msgspec.Struct, frozen=True, tag=True):
    """Rank to rendezvous server, first: its rank and the size of its job.

    Between hosts also the name of the job, and `where` the rank is (host and process).
    """

    rank: int
    world_size: int
    job: Name = ""
    where: Name = ""


class Joined(msgspec.Struct, frozen=True, tag=True):
    """Rendezvous server to rank: welcome; `where` names the serving rank.

    On one host the descriptor of the arena comes with it.
    """

    where: Name = ""


class Left(msgspec.Struct, frozen=True, tag=True):
    """Rank to rendezvous server, last: it ends in order. Server to ranks: `rank` has ended."""

    rank: int


class Beat(msgspec.Struct, frozen=True, tag=True):
    """Rendezvous server to rank: empty, sent to see whether the rank is still there."""


class AgentJoin(msgspec.Struct, frozen=True, tag=True):
    """Agent to orchestrator, first: what it calls itself, its host, and how many ranks it takes.

    `cores` are those of its process, `gpus` how many it may use. `version` is that of Rankmesh.
    """

    name: Name
    host: Name
    pid: int
    version: Name
    ranks: int
    cores: list[int]
    gpus: int = 0


class AgentWelcome(msgspec.Struct, frozen=True, tag=True):
    """Orchestrator to agent: open the connection for orders and tensors.

    An agent on the orchestrator's own host opens it at `local` instead, the name of an abstract
    socket, and first gets two descriptors: of the memory of requests, and one to be kept open
    beside that.
    """

    invitation: StreamInvitation
    local: str = ""


class AgentDismissed(msgspec.Struct, frozen=True, tag=True):
    """Orchestrator to agent: it has closed, and the agent may end."""


class Exchange(msgspec.Struct, frozen=True, tag=True):
    """Rank to supervisor: its payload for an exchange of all ranks."""

    payload: bytes


class Exchanged(msgspec.Struct, frozen=True, tag=True):
    """Supervisor to rank: the payloads of all ranks, in rank order."""

    payloads: list[bytes]


class Finished(msgspec.Struct, frozen=True, tag=True):
    """Rank to supervisor: the job is done; the launcher reads the report."""

    report: bytes


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Rank to orchestrator: orders may come; `report` is a Serving of comm/serving/orders.py."""

    report: bytes


class ControlRequest(msgspec.Struct, frozen=True, tag=True):
    """Orchestrator to rank: a request beside its orders, of comm/serving/weights.py."""

    number: int
    question: bytes


class ControlReply(msgspec.Struct, frozen=True, tag=True):
    """Rank to orchestrator: the reply to the request of that number."""

    number: int
    reply: bytes


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The job failed: to or from a supervisor or rendezvous server.

    `error` is a class name of comm/errors.py. `rank` is the rank to blame, where a program must
    know it.
    """

    error: str
    text: str
    rank: int | None = None


Message: TypeAlias = (
    Start
    | Join
    | Joined
    | Left
    | Beat
    | AgentJoin
    | AgentWelcome
    | AgentDismissed
    | Exchange
    | Exchanged
    | Finished
    | Ready
    | ControlRequest
    | ControlReply
    | Failed
)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Encode a message."""
    return _ENCODER.encode(message)


decode = guarded(_DECODER)
"""Decode a message; raises msgspec.DecodeError, and nothing else, for other bytes."""
