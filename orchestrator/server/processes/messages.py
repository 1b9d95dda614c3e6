"""Messages between the process of an orchestrator and its server processes: msgspec structs."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ....comm.decoding import guarded
from ..faults import RequestFault
from ..frontend.settings import ServerSettings
from ..observation.activity import ServerActivity


class Begin(msgspec.Struct, frozen=True, tag=True):
    """To a server process, first; `place` is its own among all, and `parent` a process id. Where
    the models have `started`, it takes connections once it can answer their requests.

    Descriptors come with it: its end of the orchestrator's endpoint, the memory of rates and of
    connection counts, and the sockets of HTTP.
    """

    settings: ServerSettings
    place: int
    parent: int
    started: bool


class Health(msgspec.Struct, frozen=True, tag=True):
    """To a server process, several times a second: the versions of models that answer requests, and
    the `models` whose current ones do; `ready`: all of them.
    """

    answering: list[tuple[str, int]]
    models: list[str]
    ready: bool
    draining: bool


class Reload(msgspec.Struct, frozen=True, tag=True):
    """To a server process: read the files of TLS and of tokens again."""


class Drain(msgspec.Struct, frozen=True, tag=True):
    """To a server process: answer what was accepted, and end."""


class PageAnswer(msgspec.Struct, frozen=True, tag=True):
    """To a server process: the response to a Page."""

    number: int
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class CallAnswer(msgspec.Struct, frozen=True, tag=True):
    """To a server process: the answer to a ForwardedCall, or with a fault the end of it."""

    number: int
    body: bytes
    fault: RequestFault | None = None


class Listening(msgspec.Struct, frozen=True, tag=True):
    """From a server process: clients can connect; `error` tells why not."""

    grpc_port: int | None
    error: str = ""


class Activity(msgspec.Struct, frozen=True, tag=True):
    """From a server process, twice a second and before each page: its counts, and when the last
    request to each version of a model came, in milliseconds since 1970.
    """

    activity: ServerActivity
    last: list[tuple[str, str, int]]


class Page(msgspec.Struct, frozen=True, tag=True):
    """From a server process: a request of HTTP that it forwards."""

    number: int
    method: str
    path: list[str]
    headers: list[tuple[bytes, bytes]]
    body: bytes


class ForwardedCall(msgspec.Struct, frozen=True, tag=True):
    """From a server process: a call of gRPC that it forwards."""

    number: int
    name: str
    body: bytes


class Abandon(msgspec.Struct, frozen=True, tag=True):
    """From a server process: the client of a forwarded request is gone."""

    number: int


ToProcess: TypeAlias = Begin | Health | Reload | Drain | PageAnswer | CallAnswer
FromProcess: TypeAlias = Listening | Activity | Page | ForwardedCall | Abandon
_ENCODER = msgspec.msgpack.Encoder()


def encode(message: ToProcess | FromProcess) -> bytes:
    """Encode a message."""
    return _ENCODER.encode(message)


_TO: msgspec.msgpack.Decoder[ToProcess] = msgspec.msgpack.Decoder(ToProcess)
_FROM: msgspec.msgpack.Decoder[FromProcess] = msgspec.msgpack.Decoder(FromProcess)

decode_to_process = guarded(_TO)
"""Decode a message to a server process; raises msgspec.DecodeError, and nothing else."""

decode_from_process = guarded(_FROM)
"""Decode a message from a server process, likewise."""
