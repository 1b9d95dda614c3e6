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
        """The fastest choice that fits, and of equally fast ones the smallest; None for none."""
        return min((one for one in self._choices if fits(one.prediction)), key=_order, default=None)

    def fastest_of(self, nbytes: int) -> Choice | None:
        """The fastest choice with at most `nbytes` of matrices; None for none.

        Where another one has no more weights, vectors included, and is faster, it is that.
        """
        found = self.fastest(lambda one: max(one.matrices) <= nbytes)
        if found is None:
            return None
        weights = found.prediction.heaviest
        return self.fastest(lambda one: one.heaviest <= weights)

    def smallest(self, size: Callable[[Prediction], int]) -> Choice:
        """The choice of the least size, and the fastest of those."""
        return min(self._choices, key=lambda one: (size(one.prediction), _order(one)))


def _order(one: Choice) -> tuple[float, int, int]:
    """Seconds, to a trillionth of them, then bytes."""
    found = one.prediction
    return round(found.seconds, 12), found.heaviest, max(found.needed)
