"""What the models of one ModelGroup have in common while they are built and run."""

from __future__ import annotations

import threading
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .executors.base import Executor
    from .executors.packed import PackedFolder

_BY_PATH: weakref.WeakValueDictionary[str, GroupShare] = weakref.WeakValueDictionary()


class GroupShare:
    """`weights`: equal weights are one copy. `workspace`: one memory for activations, and thus one run at a time."""

    def __init__(self, weights: bool, workspace: bool) -> None:
        self.weights, self.workspace = weights, workspace
        self.turn: AbstractContextManager[Any] = threading.Lock() if workspace else nullcontext()
        """Held by the model that runs."""
        self.built: set[str] = set()
        """The paths of the models that were built."""
        self._folder: PackedFolder | None = None
        self._lock = threading.Lock()

    def executor(self, own: Executor) -> Executor:
        """The executor for one of the models, whose own is `own`."""
        if not self.weights:
            return own
        from .executors.packed import Packed, PackedFolder

        with self._lock:  # models may be built in several threads
            self._folder = self._folder or PackedFolder()
        return Packed(own, self._folder)

    def claim(self, path: str) -> None:
        """Models that are built from `path`, in these words, belong here from now on."""
        _BY_PATH[path] = self


def share_of(path: str) -> GroupShare | None:
    """The share of the group that `path` was added to, if any."""
    return _BY_PATH.get(path)
