"""Weights of one model that this process holds: read once, shared with whom it lists, replaced while requests run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from numpy.typing import NDArray

from ...comm.counted import counted
from ...comm.errors import InputError, UsageError
from ...comm.rank import Rank
from ...comm.sharing.gpu import Gpu
from ...comm.sharing.messages import Update
from ..dtypes import is_float
from ..plan import Plan
from .agreement import Agreement
from .control import Edition
from .identity import content_digests, model_identity
from .live_plan import WeightReader, weights_of, with_live_weights
from .names import WeightNames
from .seats import Seats
from .settings import WeightSettings
from .sharing import Sharing
from .weight_memory import WeightMemory

Array = NDArray[Any]
_LOG = logging.getLogger("rankmesh")


class Owner:
    """One model's weights, in a WeightMemory of its own or in that of its group."""

    def __init__(self, settings: WeightSettings, memory: WeightMemory | None = None) -> None:
        self._settings = settings
        self._memory = memory or WeightMemory()
        self.device, self.opened = "", False
        self.gpu: Gpu | None = None

    def open(self, plan: Plan, memory: Mapping[str, memoryview], rank: Rank) -> None:
        """See LiveWeights.open: read the weights into memory of this process."""
        self.rank, self.delta, self.path = rank, self._settings.delta, plan.path
        weights = weights_of(plan)
        self.names = WeightNames(plan, list(weights), self._settings.names)
        with WeightReader(plan, memory) as reader:
            if self._settings.pids is not None and not self._memory.may_admit(weights, reader):
                _LOG.warning("%s: lists processes (shareable_weight_pid_list), which may not have the other weights of "
                             "its group: it shares none with it. Build it before the group's other models.", plan.path)
                self._memory = WeightMemory()
            digests = content_digests(weights, reader)
            self.identity = model_identity(with_live_weights(plan, weights), digests, reader)
            self.store, self._tenant = self._memory.admit(plan.path, weights, digests, reader, self.gpu)
        self.opened = True
        if self._settings.pids is not None:
            self.share(self._settings.pids)
        elif self._settings.names:
            self._serve()

    @property
    def version(self) -> int:
        """See LiveWeights.version."""
        return self._memory.version

    @property
    def sharing(self) -> Sharing | None:
        """What other processes get the weights from, if they do."""
        sharings = self._tenant.sharings
        return None if not sharings or sharings[-1].ended else sharings[-1]

    def share(self, pids: tuple[int, ...]) -> Sharing:
        """Hand the weights to these processes when they ask; more may be listed later.

        UsageError where some of them came with another model of its group, which those processes may not have.
        """
        if not self._memory.are_first(self.store):
            raise UsageError(f"{self.path}: its weights lie with those of {self._memory.first}, which its group built "
                             f"before: share that model, or build this one first.")
        sharing = self._serve()
        for pid in pids:
            sharing.allow(pid)
        return sharing

    def hold(self, agreement: Agreement | None) -> AbstractContextManager[Edition]:
        """See LiveWeights.hold."""
        return self._memory.hold(self._tenant, agreement)

    def seat(self, seats: Seats) -> AbstractContextManager[Edition]:
        """See LiveWeights.seat."""
        return self._memory.seat(self._tenant, seats)

    def update(self, arrays: Mapping[str, Array], delta: bool) -> int:
        """Replace weights, or with `delta` set them to the exported ones plus `arrays`; returns the new version.

        Raises InputError, naming the weight, where a shape or dtype is not the weight's, and what WeightMemory.update
        raises; then nothing has changed.
        """
        for name, array in arrays.items():
            self._check(name, array, delta)
        return self._memory.update({self.store.variable(name): array for name, array in arrays.items()}, delta,
                                   self.rank.world_size == 1)

    def rollback(self) -> int:
        """See WeightMemory.rollback."""
        return self._memory.rollback(self.rank.world_size == 1)

    def update_from(self, fd: int, request: Update) -> str:
        """Take the weights in the file that is named, which must be the one that `fd` has open; says what was done."""
        from .loading import require_same_file, weights_from

        require_same_file(fd, request.name)
        arrays = weights_from(request.name, self, request.layout)
        version = self.update(arrays, request.delta or self.delta)
        return f"updated {counted(len(arrays), 'weight')} of {self.path}: version {version}"

    def close(self) -> None:
        """See LiveWeights.close."""
        if self.opened:
            self._memory.leave(self._tenant)

    def _serve(self) -> Sharing:
        """What other processes speak to; nobody gets files before somebody is listed."""
        with self._memory.lock:
            if self.sharing is None:
                files = self._memory.files if self._memory.are_first(self.store) else ()
                self._tenant.sharings.append(
                    Sharing(self.identity, self.device, files, self.update_from, self.rank.rank))
            return self._tenant.sharings[-1]

    def _check(self, name: str, array: Array, delta: bool) -> None:
        wanted = self.store.exported(name)
        if array.shape != wanted.shape:
            raise InputError(f"the weight '{name}' has the shape {list(wanted.shape)}, got {list(array.shape)}.")
        if array.dtype != wanted.dtype:
            raise InputError(f"the weight '{name}' is {wanted.dtype}, got {array.dtype}: convert it with astype.")
        if delta and not is_float(wanted.dtype):
            raise InputError(f"the weight '{name}' is {wanted.dtype}, to which no delta can be added: replace it.")
