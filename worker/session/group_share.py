"""Group share: memory, lock and weights that the models of one ModelGroup have in common."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...comm.host.secrecy import close_to_others
from ...comm.job.shard import find_shards
from ...comm.loggers import LOG
from ...compiler.mindir.mindir_file import is_encrypted
from ..weights.settings import WeightSettings

if TYPE_CHECKING:
    from ..executors.packed import PackedFolder
    from ..weights.live_source import LiveSource
    from ..weights.weight_client import WeightClient
    from ..weights.weight_memory import WeightMemory
    from ..weights.weight_owner import WeightOwner

_BY_PATH: weakref.WeakValueDictionary[str, GroupShare] = weakref.WeakValueDictionary()


class GroupMember(Protocol):
    """An open model of a group."""

    def follow_group(self) -> None:
        """Have live weights if its group has them; raises as a build does."""


class GroupShare:
    """`weights`: equal weights are one copy. `workspace`: one memory for activations, and thus one
    run at a time.

    Weights are shared in one of two ways: packed, in files of a folder, until the first model comes
    whose weights must not be written there, or may change; from then on live, in memory of this
    process.
    """

    def __init__(self, weights: bool, workspace: bool) -> None:
        self.weights = weights
        self.workspace = workspace
        self.turn = threading.Lock() if workspace else None
        """The lock of the model that runs, where the models compute in one memory."""
        self.built: set[str] = set()
        """The paths of the models that were built."""
        self.live = False
        """Whether the models' weights are live, or are about to be."""
        self._folder: PackedFolder | None = None
        self._memory: weakref.ref[WeightMemory] | None = None
        self._members: list[weakref.ref[GroupMember]] = []
        self._lock = threading.Lock()

    def folder(self) -> PackedFolder:
        """The folder of the models' packed weights."""
        from ..executors.packed import PackedFolder

        with self._lock:  # models may be built in several threads
            self._folder = self._folder or PackedFolder()
        return self._folder

    def memory(self) -> WeightMemory:
        """Where live weights of the models lie, as long as any of them does."""
        from ..weights.weight_memory import WeightMemory

        with self._lock:
            memory = self._memory() if self._memory else None
            if memory is None:
                memory = WeightMemory()
                self._memory = weakref.ref(memory)
            return memory

    def add(self, member: GroupMember, path: str) -> None:
        """Take in the model that was built from `path`."""
        with self._lock:
            self._members.append(weakref.ref(member))
            self.built.add(path)

    def others(self, member: GroupMember) -> list[GroupMember]:
        """All members but this one in the order in which they came, the same on all ranks."""
        with self._lock:
            found = [one() for one in self._members]
        return [other for other in found if other is not None and other is not member]

    def claim(self, path: str) -> None:
        """Take in models that are built from exactly this path from now on."""
        _BY_PATH[path] = self


def share_of(path: str) -> GroupShare | None:
    """The share of the group that `path` was added to, if any."""
    return _BY_PATH.get(path)


def live_source(
    share: GroupShare | None, settings: WeightSettings, device: str
) -> LiveSource[WeightOwner | WeightClient]:
    """Weights in memory of this process, or of its group; or those of another process."""
    from ..weights.live_source import LiveSource
    from ..weights.weight_client import WeightClient
    from ..weights.weight_memory import WeightMemory
    from ..weights.weight_owner import WeightOwner

    close_to_others()  # before the model is read: it may be encrypted
    if settings.handle is not None:
        return LiveSource(partial(WeightClient, settings.handle))
    together = share is not None and share.weights and device == "cpu"
    memory = share.memory() if share and together else WeightMemory()
    return LiveSource(partial(WeightOwner, settings, memory))


def lives_with_group(
    path: str, share: GroupShare | None, settings: WeightSettings, device: str
) -> bool:
    """Whether the weights of the model at `path` lie in memory with those of its group.

    The group has live weights from the first model on that shares or updates weights, or is
    encrypted: no file may hold its plain text.
    """
    if not (share and share.weights):
        return False
    reason = ""
    if device != "cpu":
        reason = f"runs on {device}"
    elif settings.handle is not None:
        reason = "uses weights of another process"
    elif settings.mode in ("packed", "private"):
        reason = f"has weights_mode={settings.mode}"
    if reason:
        LOG.warning("%s %s: it shares no weights with the models of its group.", path, reason)
        return False
    share.live = share.live or settings.live or is_encrypted(find_shards(path).path(0))
    return share.live
