"""Rank spread: gives the ranks of a replica to agents, all to one of them where they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentRoom:
    """The free places of an agent, and the address of its host.

    `open` is whether ranks there may exchange tensors with other hosts in clear, which is how
    collectives go.
    """

    free: int
    address: str
    open: bool


def on_one_host_or_open(rooms: Sequence[AgentRoom]) -> bool:
    """Whether ranks on these agents may take part in one collective."""
    return len({room.address for room in rooms}) == 1 or all(room.open for room in rooms)


def spread(size: int, rooms: Sequence[AgentRoom]) -> list[tuple[int, int]]:
    """The agents of `size` ranks in the order of ranks: the index of each, and how many it gets.

    It is the agent with most free places where they suffice. Else it is as few as possible, with
    even shares as far as there is room: on one host, or all on hosts that are open. Empty where
    there is no room.
    """
    by_room = sorted(range(len(rooms)), key=lambda index: -rooms[index].free)
    for choice in (by_room[:1], *_joinable(by_room, rooms)):
        if sum(rooms[index].free for index in choice) >= size:
            return _shared(size, choice, rooms)
    return []


def _joinable(by_room: Sequence[int], rooms: Sequence[AgentRoom]) -> list[list[int]]:
    """The agents whose ranks may take part in one collective: of one host each, and all open."""
    hosts: dict[str, list[int]] = {}
    for index in by_room:
        hosts.setdefault(rooms[index].address, []).append(index)
    return [*hosts.values(), [index for index in by_room if rooms[index].open]]


def _shared(size: int, by_room: Sequence[int], rooms: Sequence[AgentRoom]) -> list[tuple[int, int]]:
    """Even shares of the fewest agents, of which the first has most room."""
    chosen: list[int] = []
    while sum(rooms[index].free for index in chosen) < size:
        chosen.append(by_room[len(chosen)])
    shares, left = list[tuple[int, int]](), size
    for index in reversed(chosen):
        share = min(rooms[index].free, left // (len(chosen) - len(shares)))
        shares.append((index, share))
        left -= share
    return shares[::-1]
