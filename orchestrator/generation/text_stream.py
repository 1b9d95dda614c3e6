"""Text stream: makes text of tokens as they come, and finds the texts that end it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class TokenDecoder(Protocol):
    """Makes text of the tokens of one sequence."""

    def text(self, token: int) -> str:
        """The text that a token completes; "" while a character is not whole."""


class StreamedText(NamedTuple):
    """Text that can be told now, and whether a stop text has come behind it."""

    text: str
    stopped: bool


class TextStream:
    """The text of one sequence. A part that may begin a stop text is held back."""

    def __init__(self, decoder: TokenDecoder, stops: Sequence[str]) -> None:
        self._decoder = decoder
        self._stops = stops
        self._held = ""

    def add(self, token: int) -> StreamedText:
        """The text that can be told after a token."""
        self._held += self._decoder.text(token)
        places = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if places:
            told, self._held = self._held[: min(places)], ""
            return StreamedText(told, True)
        kept = self._may_begin()
        told = self._held[: len(self._held) - kept]
        self._held = self._held[len(told) :]
        return StreamedText(told, False)

    def rest(self) -> str:
        """The text that was held back, as the sequence has ended otherwise."""
        told, self._held = self._held, ""
        return told

    def _may_begin(self) -> int:
        """How many characters at the end may begin a stop text."""
        longest = max(map(len, self._stops), default=1) - 1
        for size in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._stops):
                return size
        return 0
