"""Weight sources: give programs their weights, private, packed or live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...comm.arrays import Array
from ...comm.collectives.backend import Collectives
from ...comm.job.rank import Rank
from ..cache.build_cache import Build
from ..executors.base import Executor

if TYPE_CHECKING:
    from ..executors.packed import PackedFolder


class ProgramWeights(Protocol):
    """Weights of one program that may change between its requests."""

    def keep_current(self, constants: dict[str, Array]) -> None:
        """Keep the weights among the program's constants up to date."""

    def hold(self) -> AbstractContextManager[None]:
        """Keep the weights unchanged, for one request."""


class WeightSource(Protocol):
    """The weights of one model, over all the programs that are made of it one after the other."""

    live: bool
    """Whether the weights may change; of several ranks, those of all may or none."""

    def executor(self, own: Executor) -> Executor:
        """The executor, in front of `own`, whose sessions take the weights from here."""

    def opening(
        self, build: Build, collectives: Collectives, rank: Rank, executor: Executor
    ) -> AbstractContextManager[tuple[Build, ProgramWeights | None]]:
        """The build to make a program of, while it is made, and its weights if they may change.

        `executor` prepares segments, through the one of `executor()`.
        """

    def close(self) -> None:
        """End what other processes get from here; programs go on."""


@dataclass(frozen=True)
class PrivateWeights:
    """Weights that each session packs for itself, in memory of its process."""

    live = False

    def executor(self, own: Executor) -> Executor:
        """See WeightSource.executor."""
        return own

    @contextmanager
    def opening(
        self, build: Build, collectives: Collectives, rank: Rank, executor: Executor
    ) -> Iterator[tuple[Build, None]]:
        """See WeightSource.opening."""
        yield build, None

    def close(self) -> None:
        """See WeightSource.close."""


@dataclass(frozen=True)
class PackedWeights(PrivateWeights):
    """Weights that sessions of several models map from files of one folder, equal ones once."""

    folder: PackedFolder

    def executor(self, own: Executor) -> Executor:
        """See WeightSource.executor; sessions on other devices than the CPU map no files."""
        return self.folder.executor(own) if own.device.kind == "cpu" else own


PRIVATE = PrivateWeights()
