"""Weights that this process holds: read once, shared with whom it lists, replaced while requests run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comm.errors import InputError, UsageError
from ...comm.rank import Rank
from ...comm.sharing.lease import Lease
from ..dtypes import is_float
from ..mindir.graph import TensorType
from ..plan import Plan
from .agreement import Agreement
from .control import Control, Edition, mark
from .identity import model_identity
from .live_plan import WeightReader, type_of, weights_of, with_live_weights
from .names import WeightNames
from .quiescence import wait_for_readers
from .reader import Reader
from .seats import Seats
from .settings import WeightSettings
from .sharing import Sharing
from .store import Store
from .weight_file import WeightFile

Array = NDArray[Any]


class Owner:
    """One model's weights. Any thread may update them; one at a time runs the model.

    An update writes to copies that nobody reads, waits for nothing but readers of the version before the last, and
    takes effect at once for requests that begin after it: a request sees all of it or none.
    """

    def __init__(self, settings: WeightSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()  # held by what changes weights or seats
        self._offering = threading.Lock()  # held while the newest edition becomes the one that counts
        self._seats: Seats | None = None
        self._sharings: list[Sharing] = []  # the last one serves; those before have ended, and may have users yet
        self._previous: Edition | None = None
        self._writes = 0
        self.device, self.opened = "", False

    def open(self, plan: Plan, memory: Mapping[str, memoryview], rank: Rank) -> None:
        """See LiveWeights.open: read the weights into memory of this process."""
        self.rank, self.delta, self.path = rank, self._settings.delta, plan.path
        self._read(plan, memory)
        self._control = Control.create(len(self.store.index))
        self._newest = self._counting = Edition(0, 0, (0,) * len(self.store.index))
        lease = Lease.create()
        self._lease = Lease(lease)
        os.close(lease)
        self._reader = Reader(self._lease, self._control.word)
        self.opened = True
        if self._settings.pids is not None or self._settings.names:
            self.share(self._settings.pids or ())

    def _read(self, plan: Plan, memory: Mapping[str, memoryview]) -> None:
        """Read all weights, each once, into one memory file."""
        weights = weights_of(plan)
        self._files = [WeightFile.create("weights", {name: type_of(tensor) for name, tensor in weights.items()})]
        self.store = Store(self._files[0])
        with WeightReader(plan, memory) as reader:
            for name, tensor in weights.items():
                reader.into(tensor, self.store.exported(name))
            self.identity = model_identity(with_live_weights(plan, weights), weights, reader)
        self.names = WeightNames(plan, list(weights), self._settings.names)

    @property
    def version(self) -> int:
        """See LiveWeights.version."""
        return self._newest.version

    @property
    def sharing(self) -> Sharing | None:
        """What other processes get the weights from, if they do."""
        return None if not self._sharings or self._sharings[-1].ended else self._sharings[-1]

    def share(self, pids: tuple[int, ...]) -> Sharing:
        """Hand the weights to these processes when they ask; more may be listed later."""
        with self._lock:
            if self.sharing is None:
                files = [self._control.fd, *(file.fd for file in self._files)]
                self._sharings.append(Sharing(self.identity, self.device, files, self.update_from))
            for pid in pids:
                self._sharings[-1].allow(pid)
            return self._sharings[-1]

    @contextmanager
    def hold(self, agreement: Agreement | None) -> Iterator[Edition]:
        """See LiveWeights.hold. Where ranks agree, the newest edition counts once all of them have its version."""
        if agreement is not None:
            with self._offering:
                if agreement.same(self._newest.version) and self._newest is not self._counting:
                    self._publish(self._newest)
        with self._reader.hold():
            yield self._counting

    @contextmanager
    def seat(self, seats: Seats) -> Iterator[Edition]:
        """See LiveWeights.seat."""
        with self._lock, self._reader.hold():
            yield self._counting
            self._seats = seats

    def update(self, arrays: Mapping[str, Array], delta: bool) -> int:
        """Replace weights, or with `delta` set them to the exported ones plus `arrays`; returns the new version.

        Raises InputError, naming the weight, where a shape or dtype is not the weight's, and UsageError, naming the
        process, where one computes with an old version for longer than a deadline; then nothing has changed.
        """
        with self._lock:
            for name, array in arrays.items():
                self._check(name, array, delta)
            self._wait()
            self._make_room()
            base, self._previous = self._withdrawn()
            marks = list(base.marks)
            for name, array in arrays.items():
                marks[self.store.index[name]] = self._write(name, array, delta)
            self._finish(Edition(self._counting.generation + 1, base.version + 1, tuple(marks)))
            return self._newest.version

    def rollback(self) -> int:
        """Go back to the version before the last update, once; returns its number. UsageError where there is none."""
        with self._lock:
            previous = self._previous
            if previous is None:
                raise UsageError("there is no version of the weights to go back to: only the one before the last "
                                 "update is kept, and only until somebody went back to it.")
            self._wait()
            self._previous = None
            self._finish(replace(previous, generation=self._counting.generation + 1))
            return self._newest.version

    def update_from(self, fd: int, path: str, delta: bool) -> str:
        """Take the weights in the file at `path`, which must be the one that `fd` has open; says what was done."""
        from .loading import require_same_file, weights_from

        require_same_file(fd, path)
        arrays = weights_from(path, self)
        version = self.update(arrays, delta or self.delta)
        return f"updated {len(arrays)} weights of {self.path}: version {version}"

    def close(self) -> None:
        """See LiveWeights.close."""
        for sharing in self._sharings:
            sharing.close()

    def _check(self, name: str, array: Array, delta: bool) -> None:
        wanted = self.store.exported(name)
        if array.shape != wanted.shape:
            raise InputError(f"the weight '{name}' has the shape {list(wanted.shape)}, got {list(array.shape)}.")
        if array.dtype != wanted.dtype:
            raise InputError(f"the weight '{name}' is {wanted.dtype}, got {array.dtype}: convert it with astype.")
        if delta and not is_float(wanted.dtype):
            raise InputError(f"the weight '{name}' is {wanted.dtype}, to which no delta can be added: replace it.")

    def _wait(self) -> None:
        """Have nobody read the copies that the edition that counts does not consist of."""
        wait_for_readers(self._lease, self._sharings, self._counting.generation)

    def _withdrawn(self) -> tuple[Edition, Edition | None]:
        """What the next edition starts from, and what can be gone back to from there.

        An edition that not all ranks have yet is withdrawn: it may be written over.
        """
        with self._offering:
            base, self._newest = self._newest, self._counting
        return base, base if base is self._counting else None

    def _write(self, name: str, array: Array, delta: bool) -> int:
        """Write a weight to a copy that does not count; returns its mark."""
        copy = 2 if self._counting.copy_of(self.store.index[name]) == 1 else 1
        exported, target = self.store.exported(name), self.store.copies(name)[copy]
        if delta:
            np.add(exported, array, out=target)
        else:
            np.copyto(target, array)
        self._writes += 1
        return mark(self._writes, copy)

    def _finish(self, edition: Edition) -> None:
        """Make `edition` the newest, and where no other rank is waited for, the one that counts."""
        if self._seats:
            self._seats.make(edition)
        with self._offering:
            self._newest = edition
            if self.rank.world_size == 1:
                self._publish(edition)

    def _publish(self, edition: Edition) -> None:
        self._counting = edition  # first: whoever holds the next generation must find it here
        self._control.publish(edition)

    def _make_room(self) -> None:
        """Two more copies of every weight, in one file, which takes memory for what is written to it alone."""
        if len(self._files) > 1:
            return
        exported = {name: self.store.exported(name) for name in self.store.index}
        kinds = {name: TensorType(array.dtype, array.shape) for name, array in exported.items()}
        spares = WeightFile.create("weights-spare", kinds, copies=2)
        self._files.append(spares)
        self.store.add(spares)
        for sharing in self._sharings:
            sharing.publish(spares.fd)
