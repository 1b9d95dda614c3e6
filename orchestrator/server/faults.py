"""Faults of requests: one table from errors to codes of HTTP and gRPC, and texts for clients."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from ...comm.errors import (
    Closed,
    DeadlineExceeded,
    Draining,
    InputError,
    ModelError,
    OutOfMemory,
    Poisoned,
    QueueFull,
    RankDied,
    RankFailed,
    RankHung,
    RankmeshError,
    RestartBudgetExhausted,
    UsageError,
)
from ..requests.loaded_versions import NotLoaded


class GrpcCode(IntEnum):
    """Status codes of gRPC, as its specification numbers them."""

    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class UnknownModel(RankmeshError):
    """A request names a model, or a version of one, that is not served."""


class UnsupportedCall(RankmeshError):
    """A call of the protocol that this server does not offer, or that is switched off."""


class TooLong(RankmeshError):
    """A body or message has more bytes than its limit once it is inflated."""


class UnknownRegion(RankmeshError):
    """A request names a region of shared memory that is not registered."""


class KnownRegion(RankmeshError):
    """A region of this name is registered already."""


class ManagementOff(RankmeshError):
    """A call that changes models, where the operator has not allowed that."""


class ChangeFailed(RankmeshError):
    """A model could not be loaded or unloaded."""


class TokenMissing(RankmeshError):
    """A request has no token; or, where it is not `known`, none of this server's."""

    def __init__(self, text: str, *, known: bool = True) -> None:
        super().__init__(text)
        self.known = known


class RoleMissing(RankmeshError):
    """The token of a request does not permit it."""


class TooManyRequests(RankmeshError):
    """A caller has sent more requests than its rate; the next one may come after some seconds."""

    def __init__(self, text: str, seconds: int) -> None:
        super().__init__(text)
        self.seconds = seconds


class NotStarted(RankmeshError):
    """The models of the server are still starting."""


@dataclass(frozen=True, slots=True)
class RequestFault:
    """An error as a client sees it: two codes, one sentence, and when to try again."""

    status: int
    grpc: GrpcCode
    text: str
    retry_after: int | None = None
    """Seconds; None where another try would end as this one did."""

    depth: int | None = None
    """How many requests wait, where the queue is full."""


class ForwardedFault(RankmeshError):
    """An error that the process of the orchestrator has told of a forwarded request."""

    def __init__(self, fault: RequestFault) -> None:
        super().__init__(fault.text)
        self.fault = fault


_CODES: dict[type[BaseException], tuple[int, GrpcCode, int | None]] = {
    # The request is wrong: it never ran.
    InputError: (400, GrpcCode.INVALID_ARGUMENT, None),
    UsageError: (400, GrpcCode.INVALID_ARGUMENT, None),
    TooLong: (413, GrpcCode.RESOURCE_EXHAUSTED, None),
    UnknownModel: (404, GrpcCode.NOT_FOUND, None),
    UnknownRegion: (404, GrpcCode.NOT_FOUND, None),
    KnownRegion: (409, GrpcCode.ALREADY_EXISTS, None),
    UnsupportedCall: (400, GrpcCode.UNIMPLEMENTED, None),
    ManagementOff: (403, GrpcCode.PERMISSION_DENIED, None),
    ChangeFailed: (400, GrpcCode.FAILED_PRECONDITION, None),
    # The request is refused: the client may not send it, or not now.
    TokenMissing: (401, GrpcCode.UNAUTHENTICATED, None),
    RoleMissing: (403, GrpcCode.PERMISSION_DENIED, None),
    TooManyRequests: (429, GrpcCode.RESOURCE_EXHAUSTED, 1),
    # The server takes no request now.
    NotStarted: (503, GrpcCode.UNAVAILABLE, 1),
    NotLoaded: (503, GrpcCode.UNAVAILABLE, 1),
    QueueFull: (503, GrpcCode.UNAVAILABLE, 1),
    Draining: (503, GrpcCode.UNAVAILABLE, 1),
    Closed: (503, GrpcCode.UNAVAILABLE, 1),
    RestartBudgetExhausted: (503, GrpcCode.UNAVAILABLE, None),
    OutOfMemory: (503, GrpcCode.RESOURCE_EXHAUSTED, 1),
    # The request was accepted.
    DeadlineExceeded: (504, GrpcCode.DEADLINE_EXCEEDED, None),
    Poisoned: (422, GrpcCode.FAILED_PRECONDITION, None),
    RankDied: (503, GrpcCode.ABORTED, 1),
    RankHung: (503, GrpcCode.ABORTED, 1),
    RankFailed: (500, GrpcCode.INTERNAL, None),
    ModelError: (500, GrpcCode.INTERNAL, None),
    RankmeshError: (500, GrpcCode.INTERNAL, None),
    MemoryError: (503, GrpcCode.RESOURCE_EXHAUSTED, 1),
}
"""By class: the status of HTTP, the code of gRPC, and after how many seconds to try again."""

_FOLDER = re.compile(r"(?<![\w.:/-])/(?:[^\s/:'\",;()]+/)*(?=[^\s/:'\",;()])")
_LONGEST = 1000


def fault_of(error: BaseException) -> RequestFault:
    """An error of any class as a client sees it; the log has the rest."""
    if isinstance(error, ForwardedFault):
        return error.fault
    for kind in type(error).__mro__:
        if kind in _CODES:
            status, code, retry_after = _CODES[kind]
            if isinstance(error, TooManyRequests):
                retry_after = error.seconds
            depth = error.depth if isinstance(error, QueueFull) else None
            return RequestFault(status, code, public_text(error), retry_after, depth)
    return RequestFault(
        500, GrpcCode.INTERNAL, "the server has failed at this request: its log tells why."
    )


def public_text(error: BaseException) -> str:
    """The first line of an error's text, of all paths only the last name: no folder of the host is
    told, and no stack.
    """
    if isinstance(error, MemoryError):
        return "the host has no memory left for this request."
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return _FOLDER.sub("", line)[:_LONGEST]
