"""Faults of rank tables: the one exception of this folder, with the JSON path of the fault."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MOST_FAULTS = 50  # a hostile file of 32 MiB can have millions


class RankTableFault(ValueError):
    """A rank table is unreadable or contradicts itself; `path` is the JSON path of the fault.

    `others` are further faults of the same table; there are MOST_FAULTS in all at most.
    """

    def __init__(
        self, text: str, path: str = "", source: str = "", others: tuple[RankTableFault, ...] = ()
    ) -> None:
        super().__init__(": ".join(part for part in (source, path, text) if part))
        self.text = text
        self.path = path
        self.source = source
        self.others = others

    @property
    def all(self) -> tuple[RankTableFault, ...]:
        """Every fault that was found, this one first, each without `others`."""
        return (RankTableFault(self.text, self.path, self.source), *self.others)

    def in_source(self, source: str) -> RankTableFault:
        """The same fault, with the file's name in front."""
        return RankTableFault(
            self.text, self.path, source, tuple(other.in_source(source) for other in self.others)
        )


def raise_all(faults: Iterable[RankTableFault]) -> None:
    """Raise the first of `faults` with the others attached; do nothing where there are none."""
    found = list(islice((one for fault in faults for one in fault.all), MOST_FAULTS))
    if found:
        raise RankTableFault(found[0].text, found[0].path, found[0].source, tuple(found[1:]))
