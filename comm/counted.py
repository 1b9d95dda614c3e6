"""Numbers of things in messages: 1 rank, 2 ranks."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`number` and its noun, which takes an s except where there is one, or `plural`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
