"""Groups: the ranks of a torch module's collective, as the exported file names them."""

from __future__ import annotations

from dataclasses import dataclass

from ...comm.errors import UsageError
from ...comm.text import counted


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks that take part in a collective.

    The name "world" means all ranks; any other name needs `ranks`, the global ranks in order of
    position. `size` is the number of ranks, and 0 leaves it open. `position` is the place in the
    group that the module is a shard for, and -1 leaves it open. A size and a position are written
    into an exported file, and Rankmesh refuses to run the file elsewhere. Raises UsageError where
    the four do not fit each other.
    """

    name: str = "world"
    ranks: tuple[int, ...] = ()
    size: int = 0
    position: int = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", tuple(self.ranks))
        if self.ranks and (min(self.ranks) < 0 or len(set(self.ranks)) < len(self.ranks)):
            raise UsageError(
                f"the group '{self.name}' has the ranks {list(self.ranks)}, expected different "
                "numbers from 0."
            )
        if self.ranks and self.size not in (0, len(self.ranks)):
            raise UsageError(
                f"the group '{self.name}' has {counted(len(self.ranks), 'rank')} and the size "
                f"{self.size}: leave out the size."
            )
        if not self.ranks and self.name != "world":
            raise UsageError(
                f"the group '{self.name}' has no ranks: name them, as in "
                f"Group({self.name!r}, ranks=(0, 1)), or use the group 'world'."
            )
        object.__setattr__(self, "size", self.size or len(self.ranks))
        if self.size < 0 or self.position < -1 or 0 < self.size <= self.position:
            raise UsageError(
                f"the group '{self.name}' has the size {self.size} and the position "
                f"{self.position}, expected a position from 0 to the size - 1."
            )


WORLD = Group()
