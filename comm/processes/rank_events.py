"""Rank events: tell the user of a RankSupervisor what has happened to a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from ..transport.messages import Failed
from .supervised_process import SupervisedProcess

ProcessT = TypeVar("ProcessT", bound=SupervisedProcess, covariant=True)


@dataclass(frozen=True, slots=True)
class RankReady(Generic[ProcessT]):
    """A rank has reported: its job is done, or, of an orchestrator, it takes requests."""

    process: ProcessT
    report: bytes


@dataclass(frozen=True, slots=True)
class RankReplied(Generic[ProcessT]):
    """A rank has replied to the control request `number`."""

    process: ProcessT
    number: int
    reply: bytes


@dataclass(frozen=True, slots=True)
class RankRaised(Generic[ProcessT]):
    """A rank has sent the error with which it ends."""

    process: ProcessT
    error: Failed


@dataclass(frozen=True, slots=True)
class RankExited(Generic[ProcessT]):
    """A rank's process has ended or is ending; events of what it sent before have come."""

    process: ProcessT


@dataclass(frozen=True, slots=True)
class RankLost(Generic[ProcessT]):
    """The host of a rank is gone; `text` is the end of a sentence about the rank."""

    process: ProcessT
    text: str


@dataclass(frozen=True, slots=True)
class ChannelLost(Generic[ProcessT]):
    """A rank has closed its channel, mostly because its process ends."""

    process: ProcessT


@dataclass(frozen=True, slots=True)
class ProtocolViolated(Generic[ProcessT]):
    """A rank has sent what it must not send; `text` is the end of a sentence about the rank."""

    process: ProcessT
    text: str


@dataclass(frozen=True, slots=True)
class RankUnresponsive(Generic[ProcessT]):
    """A rank has taken no byte of its messages until the deadline."""

    process: ProcessT


@dataclass(frozen=True, slots=True)
class RoundLate(Generic[ProcessT]):
    """`missing` have not joined an exchange of all ranks within the deadline."""

    missing: Sequence[ProcessT]


@dataclass(frozen=True, slots=True)
class RoundBroken(Generic[ProcessT]):
    """An exchange of all ranks waits for a rank whose process has ended."""

    missing: ProcessT


@dataclass(frozen=True, slots=True)
class CallbackFailed:
    """A callback about the ranks has raised `error`."""

    error: Exception


RankEvent: TypeAlias = (
    RankReady[ProcessT]
    | RankReplied[ProcessT]
    | RankRaised[ProcessT]
    | RankExited[ProcessT]
    | RankLost[ProcessT]
    | ChannelLost[ProcessT]
    | ProtocolViolated[ProcessT]
    | RankUnresponsive[ProcessT]
    | RoundLate[ProcessT]
    | RoundBroken[ProcessT]
    | CallbackFailed
)
