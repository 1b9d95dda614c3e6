"""Control messages of ranks, checked: their reports when they are ready, and replies to requests.

The orchestrator lays out memory by the reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol

import msgspec

from ...comm.request_memory.owned_arena import Region
from ...comm.serving.orders import InvalidRankData, ModelReport, decode_report
from ...comm.serving.tensor_spec import dtype_named

_MOST_BYTES = 1 << 48
"""Bytes of one tensor: more than processors can address."""


def read_report(rank: int, data: bytes) -> ModelReport:
    """The report of a rank; InvalidRankData where it is none."""
    try:
        report = decode_report(data)
    except msgspec.DecodeError as error:
        raise InvalidRankData(rank, f"sent a report that cannot be read: {error}") from error
    for spec in (*report.inputs, *report.outputs):
        check_tensor(rank, spec.name, spec.stored.dtype, spec.shape or ())
    results = set(report.results)
    outputs = len(report.outputs)
    if not results <= set(range(outputs)) or len(results) < len(report.results):
        raise InvalidRankData(rank, f"reported the outputs {list(report.results)} of {outputs}")
    return report


def check_tensor(rank: int, name: str, dtype: str, shape: Sequence[int]) -> None:
    """Raise InvalidRankData where no tensor of numbers is like this; -1 in a shape is any size."""
    try:
        kind = dtype_named(dtype)
    except (TypeError, ValueError) as error:
        raise InvalidRankData(
            rank, f"reported {name!r} of the dtype {dtype!r}, which there is not"
        ) from error
    if kind.hasobject or not kind.itemsize:  # objects would be addresses in this process
        raise InvalidRankData(
            rank, f"reported {name!r} of the dtype {dtype!r}, which is none of numbers"
        )
    if min(shape, default=0) < -1 or prod(map(abs, shape)) * kind.itemsize > _MOST_BYTES:
        raise InvalidRankData(
            rank, f"reported {name!r} of the shape {list(shape)}, which no tensor has"
        )


class PlacedRequest(NamedTuple):
    """An encoded request to a rank, and the memory of the weights that it names, in their order.

    The rank `reads` what lies there, `writes` there, or both.
    """

    data: bytes
    regions: Sequence[Region] = ()
    reads: bool = True
    writes: bool = False


class ControlRound(Protocol):
    """One control request to each rank, and their replies; called in the loop's thread."""

    requests: Sequence[PlacedRequest]
    """In rank order."""

    def take(self, rank: int, reply: bytes) -> bool:
        """Take a rank's reply; whether it was the last one. Raises InvalidRankData."""

    def lose(self) -> None:
        """The incarnation is over: no more replies come."""


class OpenRounds:
    """The control rounds that wait for replies, by the number of their requests."""

    def __init__(self) -> None:
        self._rounds: dict[int, ControlRound] = {}
        self._opened = 0

    def open(self, control_round: ControlRound) -> int:
        """Add a round; the number of its requests."""
        self._opened += 1
        self._rounds[self._opened] = control_round
        return self._opened

    def take(self, rank: int, number: int, reply: bytes) -> None:
        """Give a reply to its round. Raises InvalidRankData where that is not open."""
        if number not in self._rounds:
            raise InvalidRankData(rank, f"sent a reply to question {number}, which is not open")
        if self._rounds[number].take(rank, reply):
            del self._rounds[number]

    def lose(self) -> None:
        """Tell all rounds that no more replies come."""
        rounds = list(self._rounds.values())
        self._rounds.clear()
        for control_round in rounds:
            control_round.lose()
