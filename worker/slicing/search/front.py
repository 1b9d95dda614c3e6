"""Front: keeps every choice that a search has evaluated, and takes the best of them.

Searches for other limits meet some of the same choices. A choice that is slower than another one
and needs no fewer bytes is never taken, whatever the limit was for which it was found.
"""

from __future__ import annotations

from collections.abc import Callable

from ..planning.prediction import Prediction
from .choice_task import Choice

Fits = Callable[[Prediction], bool]


class Front:
    """The choices of one search."""

    def __init__(self) -> None:
        self._choices: list[Choice] = []

    def __len__(self) -> int:
        return len(self._choices)

    def add(self, choice: Choice) -> Choice:
        """Keep a choice."""
        self._choices.append(choice)
        return choice

    def fastest(self, fits: Fits) -> Choice | None:
        """The fastest choice that fits, or one with no more weights that is faster; None for none.

        Of equally fast ones, it is the one with the fewest bytes.
        """
        fitting = [one for one in self._choices if fits(one.prediction)]
        if not fitting:
            return None
        found = min(fitting, key=_order).prediction
        lighter = [one for one in self._choices if one.prediction.heaviest <= found.heaviest]
        return min(lighter, key=_order)

    def smallest(self, size: Callable[[Prediction], int]) -> Choice:
        """The choice of the least size, and the fastest of those."""
        return min(self._choices, key=lambda one: (size(one.prediction), _order(one)))


def _order(one: Choice) -> tuple[float, int, int]:
    """Seconds, to a trillionth of them, then bytes."""
    found = one.prediction
    return round(found.seconds, 12), found.heaviest, max(found.needed)
