"""Levels of load: tell how many clients there are, or how many requests a second."""

from __future__ import annotations

from dataclasses import dataclass

from ...comm.errors import UsageError
from ...comm.text import counted

_CLIENTS = "1,2,4,8"
_MOST_CLIENTS = 1000
_MOST_RATE = 1e6


@dataclass(frozen=True, slots=True)
class Level:
    """One level of load: so many `clients`, each of which waits for its answer before it sends
    again (closed loop); or `rate` requests a second, which wait for no answer (open loop).
    """

    clients: int | None = None
    rate: float | None = None

    def __str__(self) -> str:
        return f"{self.rate:g}/s" if self.rate is not None else counted(self.clients or 0, "client")


def levels_of(clients: str | None, rate: str | None) -> list[Level]:
    """The levels of the two options. Raises UsageError."""
    if clients is not None and rate is not None:
        raise UsageError("--clients is a closed loop, --rate an open one: leave one out.")
    if rate is not None:
        return [Level(rate=_number("--rate", one, _MOST_RATE)) for one in rate.split(",")]
    wanted = (clients or _CLIENTS).split(",")
    return [Level(int(_number("--clients", one, _MOST_CLIENTS, whole=True))) for one in wanted]


def _number(option: str, text: str, most: float, whole: bool = False) -> float:
    try:
        found = int(text) if whole else float(text)
    except ValueError:
        found = 0
    if not 0 < found <= most:
        raise UsageError(
            f"{option} {text.strip() or repr(text)}: expected numbers such as 1,2,4, each above 0 "
            f"and up to {most:g}."
        )
    return found
