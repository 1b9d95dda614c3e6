"""Rank events: tell the user of a RankSupervisor what has happened to a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..transport.messages import Failed
from .rank_process import RankProcess


@dataclass(frozen=True, slots=True)
class RankReady:
    """A rank has reported: its job is done, or, of an orchestrator, it takes requests."""

    process: RankProcess
    report: bytes


@dataclass(frozen=True, slots=True)
class RankReplied:
    """A rank has replied to the control request `number`."""

    process: RankProcess
    number: int
    reply: bytes


@dataclass(frozen=True, slots=True)
class RankRaised:
    """A rank has sent the error with which it ends."""

    process: RankProcess
    error: Failed


@dataclass(frozen=True, slots=True)
class RankExited:
    """A rank's process has ended or is ending; events of what it sent before have come."""

    process: RankProcess


@dataclass(frozen=True, slots=True)
class ChannelLost:
    """A rank has closed its channel, mostly because its process ends."""

    process: RankProcess


@dataclass(frozen=True, slots=True)
class ProtocolViolated:
    """A rank has sent what it must not send; `text` is the end of a sentence about the rank."""

    process: RankProcess
    text: str


@dataclass(frozen=True, slots=True)
class RankUnresponsive:
    """A rank has taken no byte of its messages until the deadline."""

    process: RankProcess


@dataclass(frozen=True, slots=True)
class RoundLate:
    """`missing` have not joined an exchange of all ranks within the deadline."""

    missing: Sequence[RankProcess]


@dataclass(frozen=True, slots=True)
class RoundBroken:
    """An exchange of all ranks waits for a rank whose process has ended."""

    missing: RankProcess


@dataclass(frozen=True, slots=True)
class CallbackFailed:
    """A callback about the ranks has raised `error`."""

    error: Exception


RankEvent: TypeAlias = (
    RankReady
    | RankReplied
    | RankRaised
    | RankExited
    | ChannelLost
    | ProtocolViolated
    | RankUnresponsive
    | RoundLate
    | RoundBroken
    | CallbackFailed
)
