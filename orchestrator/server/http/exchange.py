"""HTTP exchanges: one request with its body, and the response, whichever server carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct, json

Part = bytes | bytearray | memoryview
Header = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")


class HttpPeer(Protocol):
    """The other side of a connection."""

    def get_extra_info(self, name: str) -> object:
        """A fact as asyncio's transports tell it; `peername` is an address and a port."""


class BodyStream(Protocol):
    """The body of a request, in the order in which it comes. It is read once."""

    @property
    def length(self) -> int | None:
        """Its bytes, None where the client did not tell."""

    async def read(self, size: int) -> bytes:
        """The next `size` bytes. Raises BadRequest where the body ends before."""

    async def read_rest(self) -> bytes:
        """All that is left. Raises BadRequest where that is more than the server takes."""

    async def read_into(self, memory: memoryview) -> None:
        """The next bytes, as many as `memory` has, written there; like `read`."""


@dataclass(slots=True)
class HttpRequest:
    """One request: `path` in its parts, without a first slash.

    `headers` are by name in small letters, those that repeat joined by commas.
    """

    method: str
    path: Sequence[str]
    headers: Mapping[bytes, bytes]
    body: BodyStream
    client: str = ""
    """The address of the client; empty where it is not known."""

    refusal: HttpResponse | None = None
    """The response of the connection itself, which has cancelled the application's task."""

    observed: bool = False
    """Whether an observer knows of it, and will of its end."""

    admitted: bool = False
    """Whether it has passed the gate, where there is one: it counts once."""


@dataclass(slots=True)
class HttpResponse:
    """One response; `parts` are sent one after the other, without a copy."""

    status: int = 200
    parts: Sequence[Part] = ()
    headers: Sequence[Header] = ()
    bodiless: bool = False
    """Whether the parts are only counted, as the answer to HEAD wants it."""

    lines: bytes = b""
    """`headers` as they are sent, where an equal response was encoded before."""

    @property
    def length(self) -> int:
        """The bytes of all parts."""
        return sum(map(len, self.parts))


def address_of(peer: HttpPeer | None) -> str:
    """The address of the other side of a connection; empty where it has none."""
    found = None if peer is None else peer.get_extra_info("peername")
    return str(found[0]) if isinstance(found, tuple) and found else ""


class Application(Protocol):
    """The part that makes the responses to requests."""

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """The response to a request, for errors as well; only a cancellation is raised."""


class BadRequest(Exception):
    """A request that HTTP itself, or a limit of the server, refuses: a status and a sentence."""

    def __init__(self, status: int, text: str, headers: Sequence[Header] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


def json_response(value: object, status: int = 200, headers: Sequence[Header] = ()) -> HttpResponse:
    """A response of one JSON document."""
    return HttpResponse(status, (json.encode(value),), (JSON_TYPE, *headers))


class ErrorMessage(Struct, omit_defaults=True):
    """The document of an error; `depth` requests wait where the queue is full."""

    error: str
    depth: int | None = None


def error_response(status: int, text: str, headers: Sequence[Header] = ()) -> HttpResponse:
    """The response for an error."""
    return json_response(ErrorMessage(text), status, headers)
