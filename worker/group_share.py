"""What the models of one ModelGroup have in common while they are built and run."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .executors.base import Executor
    from .executors.packed import PackedFolder
    from .weights.weight_memory import WeightMemory

_BY_PATH: weakref.WeakValueDictionary[str, GroupShare] = weakref.WeakValueDictionary()


class Member(Protocol):
    """A model of a group."""

    def follow_group(self) -> None:
        """Have live weights, if it is built and its group has them."""


class GroupShare:
    """`weights`: equal weights are one copy. `workspace`: one memory for activations, and thus one run at a time.

    Weights are shared in one of two ways: packed, in files of a folder, until the first model comes whose weights
    must not be written there, or may change; from then on live, in memory of this process.
    """

    def __init__(self, weights: bool, workspace: bool) -> None:
        self.weights, self.workspace = weights, workspace
        self.turn = threading.Lock() if workspace else None
        """Held by the model that runs."""
        self.built: set[str] = set()
        """The paths of the models that were built."""
        self.live = False
        """Whether the models' weights are live, or are about to be."""
        self._folder: PackedFolder | None = None
        self._memory: weakref.ref[WeightMemory] | None = None
        self._members: list[weakref.ref[Member]] = []  # in order: of several ranks all do the same
        self._lock = threading.Lock()

    def executor(self, own: Executor) -> Executor:
        """The executor for one of the models, whose own is `own`."""
        if not self.weights:
            return own
        from .executors.packed import Packed, PackedFolder

        with self._lock:  # models may be built in several threads
            self._folder = self._folder or PackedFolder()
        return Packed(own, self._folder)

    def memory(self) -> WeightMemory:
        """Where live weights of the models lie, as long as any of them does."""
        from .weights.weight_memory import WeightMemory

        with self._lock:
            memory = self._memory() if self._memory else None
            if memory is None:
                memory = WeightMemory()
                self._memory = weakref.ref(memory)
            return memory

    def enter(self, member: Member) -> None:
        """A model is about to be built here."""
        with self._lock:
            if member not in self._entered():
                self._members.append(weakref.ref(member))

    def spread(self, first: Member) -> None:
        """Have all models follow the group, `first` before the others; what that raises names the model."""
        with self._lock:
            others = [member for member in self._entered() if member is not first]
        for member in (first, *others):
            member.follow_group()

    def claim(self, path: str) -> None:
        """Models that are built from `path`, in these words, belong here from now on."""
        _BY_PATH[path] = self

    def _entered(self) -> Iterator[Member]:
        return (member for one in self._members if (member := one()) is not None)


def share_of(path: str) -> GroupShare | None:
    """The share of the group that `path` was added to, if any."""
    return _BY_PATH.get(path)
