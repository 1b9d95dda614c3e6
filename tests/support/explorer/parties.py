"""Parties of the explorer: each is a tree of accesses, which grows as its code is run.

A node stands for all that a party has been answered so far, and has its next access. Two orders of
steps that answer a party alike lead to one node, so that no code runs twice for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .machine import Access, Act, Machine, Suspended


@dataclass(eq=False)
class Node:
    """A party after some answers: its next access, or its result or error."""

    party: int
    access: Access | None = None
    result: object = None
    error: Exception | None = None
    before: Node | None = None
    answer: Any = None
    children: dict[Any, int] = field(default_factory=dict)
    parents: list[Node] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    """The words that the party may access from here on, as far as is known."""

    written: set[int] = field(default_factory=set)
    """Those of them that it may write."""

    def answers(self) -> list[Any]:
        """All that the party has been answered."""
        found, node = [], self
        while node.before is not None:
            found.append(node.answer)
            node = node.before
        return found[::-1]


class Parties:
    """The nodes of all parties, by number."""

    def __init__(self, machine: Machine, builds: dict[str, Callable[[], Act]], most: int) -> None:
        """`most` accesses of a party are followed."""
        self.names = [*builds]
        self.nodes: list[Node] = []
        self.grown = False
        """Whether more has become known of what parties may do since this was last cleared."""

        self._machine, self._builds, self._most = machine, [*builds.values()], most
        self._kept: dict[tuple[int, tuple[object, ...]], int] = {}
        self.roots = [self._run(Node(party)) for party in range(len(builds))]

    def after(self, number: int, answer: Any) -> int:
        """The node of a party whose access has been answered."""
        node = self.nodes[number]
        found = node.children.get(answer)
        if found is None:
            found = self._run(Node(node.party, before=node, answer=answer))
            node.children[answer] = found
            self.nodes[found].parents.append(node)
            self._learn(self.nodes[found])
        return found

    def is_private(self, party: int, access: Access, others: Iterable[int]) -> bool:
        """Whether a step of `party` can be taken before all steps of the parties at `others`."""
        if access.kind not in ("load", "store"):
            return False
        writes = access.kind == "store"
        for number in others:
            node = self.nodes[number]
            seen = node.used if writes else node.written
            if node.party != party and not seen.isdisjoint(access.keys):
                return False
        return True

    def _run(self, node: Node) -> int:
        answers = node.answers()
        if len(answers) > self._most:
            text = f"has made more than {self._most} accesses: does it look again and again?"
            raise AssertionError(f"{self.names[node.party]} {text}")
        try:
            node.result = self._machine.run(self._builds[node.party], answers)
        except Suspended:
            node.access = self._machine.pending
        except Exception as error:
            node.error = error.with_traceback(None)
        if node.access is not None and node.access.kind == "forget":
            return self._merged(node, node.access.values)
        if node.access is None and node.error is None:
            key = node.party, ("ended", repr(node.result))
            if key in self._kept:
                return self._kept[key]
            self._kept[key] = len(self.nodes)
        self.nodes.append(node)
        self.grown = True
        if node.access is not None:
            node.used.update(node.access.keys)
            if node.access.kind not in ("load", "sleep", "await", "wake"):
                node.written.update(node.access.keys)
        return len(self.nodes) - 1

    def _merged(self, node: Node, kept: tuple[object, ...]) -> int:
        """The node behind one that forgets all but `kept`: the same each time."""
        key = node.party, kept
        if key not in self._kept:
            self._kept[key] = self._run(Node(node.party, before=node))
        return self._kept[key]

    def _learn(self, node: Node) -> None:
        """Have the nodes before this one know what it may do."""
        due = [node]
        while due:
            node = due.pop()
            for one in node.parents:
                if not (node.used <= one.used and node.written <= one.written):
                    one.used |= node.used
                    one.written |= node.written
                    self.grown = True
                    due.append(one)
