"""What a rank has written where its orchestrator reads, and cannot be."""

from __future__ import annotations


class Nonsense(Exception):
    """`rank` wrote it; the text goes on behind the rank's name: "answered with ..."."""

    def __init__(self, rank: int, text: str) -> None:
        super().__init__(text)
        self.rank = rank
