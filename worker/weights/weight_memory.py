"""Weights in memory of this process, of one model or of all models of a group, and which of their copies count."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray
from onnx import TensorProto

from ...comm.errors import UsageError
from ...comm.sharing.gpu import Gpu
from ...comm.sharing.lease import Lease
from .agreement import Agreement
from .control import Control, Edition, mark
from .inventory import Inventory
from .live_plan import WeightReader
from .quiescence import wait_for_readers
from .reader import Reader
from .seats import Seats
from .sharing import Sharing
from .store import Store, Variable
from .stored import put, put_sum

Array = NDArray[Any]


@dataclass(eq=False, slots=True)
class Tenant:
    """One model that computes with the weights: its turn at them, its sessions, and whom it shares them with."""

    reader: Reader
    seats: Seats | None = None
    sharings: list[Sharing] = field(default_factory=list)
    """The last one serves; those before have ended, and may have users yet."""


class WeightMemory:
    """Weights, each once. Any thread may update them; of each tenant, one at a time runs the model.

    An update writes to copies that nobody reads, waits for nothing but readers of the version before the last, and
    takes effect at once for requests that begin after it: a request sees all of it or none.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held by what changes weights or seats."""
        self.first = ""
        """The model whose weights came first: those, all of them, are what other processes can have."""
        self._offering = threading.Lock()  # held while the newest edition becomes the one that counts
        self._inventory = Inventory()
        weakref.finalize(self, self._inventory.close).atexit = False
        self._tenants: list[Tenant] = []
        self._newest = self._counting = Edition(0, 0, ())
        self._previous: Edition | None = None
        self._writes = 0

    def admit(self, path: str, weights: Mapping[str, TensorProto], digests: Mapping[str, bytes], reader: WeightReader,
              gpu: Gpu | None) -> tuple[Store, Tenant]:
        """The store of a model's weights, on its GPU if it runs there, and its place here.

        What is here already is not kept again. `digests` are those of content_digests.
        """
        with self.lock:
            variables = self._inventory.add(weights, digests, reader, gpu)
            if not self.first:
                self.first, self._control = path, Control.create(self._inventory.count)
                weakref.finalize(self, self._control.close).atexit = False
            self._lengthen()
            fd, lease = Lease.make()
            os.close(fd)
            self._tenants.append(Tenant(Reader(lease, self._control.word)))
            return Store(variables), self._tenants[-1]

    def leave(self, tenant: Tenant) -> None:
        """Serve the tenant's users no more, and wait for it no more."""
        for sharing in tenant.sharings:
            sharing.close()
        with self.lock:
            self._tenants.remove(tenant)

    @property
    def version(self) -> int:
        """How many updates are in effect."""
        return self._newest.version

    def may_admit(self, weights: Mapping[str, TensorProto], reader: WeightReader) -> bool:
        """Whether a model with these weights could share them with other processes if it lived here."""
        with self.lock:
            return not self.first or self._inventory.is_first(weights, reader)

    def are_first(self, store: Store) -> bool:
        """Whether a model's weights are those that came first, no more and no less."""
        return set(store.index.values()) == set(range(self._control.count))

    @property
    def files(self) -> list[int]:
        """The descriptors that other processes get: of the control page, and of the weights that came first."""
        return [self._control.fd, *(fd for file in self._inventory.batches[0].files for fd in file.fds)]

    @contextmanager
    def hold(self, tenant: Tenant, agreement: Agreement | None) -> Iterator[Edition]:
        """See LiveWeights.hold. Where ranks agree, the newest edition counts once all of them have its version."""
        if agreement is not None:
            with self._offering:
                if agreement.same(self._newest.version) and self._newest is not self._counting:
                    self._publish(self._newest)
        with tenant.reader.hold():
            yield self._counting

    @contextmanager
    def seat(self, tenant: Tenant, seats: Seats) -> Iterator[Edition]:
        """See LiveWeights.seat."""
        with self.lock, tenant.reader.hold():
            yield self._counting
            tenant.seats = seats

    def update(self, arrays: Mapping[Variable, Array], delta: bool, at_once: bool) -> int:
        """Replace weights, or with `delta` set them to the exported ones plus `arrays`; returns the new version.

        It counts `at_once`, or when all ranks have it. Raises UsageError, naming the process, where one computes with
        an old version for longer than a deadline; then nothing has changed.
        """
        with self.lock:
            self._wait()
            self._make_room(arrays)
            base, self._previous = self._withdrawn()
            marks = list(base.marks)
            for variable, array in arrays.items():
                marks[variable.number] = self._write(variable, array, delta)
            self._finish(Edition(self._counting.generation + 1, base.version + 1, tuple(marks)), at_once)
            return self._newest.version

    def rollback(self, at_once: bool) -> int:
        """Go back to the version before the last update, once; returns its number. UsageError where there is none."""
        with self.lock:
            previous = self._previous
            if previous is None:
                raise UsageError("there is no version of the weights to go back to: only the one before the last "
                                 "update is kept, and only until somebody went back to it.")
            self._wait()
            self._previous = None
            self._finish(replace(previous, generation=self._counting.generation + 1), at_once)
            return self._newest.version

    def _lengthen(self) -> None:
        """Let all editions have the weights that came: as exported."""
        with self._offering:
            same = self._newest is self._counting
            self._counting = self._lengthened(self._counting)
            self._newest = self._counting if same else self._lengthened(self._newest)
        self._previous = self._previous and self._lengthened(self._previous)

    def _lengthened(self, edition: Edition) -> Edition:
        return replace(edition, marks=edition.marks + (0,) * (self._inventory.count - len(edition.marks)))

    def _wait(self) -> None:
        """Have nobody read the copies that the edition that counts does not consist of."""
        wait_for_readers([tenant.reader.lease for tenant in self._tenants],
                         [sharing for tenant in self._tenants for sharing in tenant.sharings],
                         self._counting.generation)

    def _withdrawn(self) -> tuple[Edition, Edition | None]:
        """What the next edition starts from, and what can be gone back to from there.

        An edition that not all ranks have yet is withdrawn: it may be written over.
        """
        with self._offering:
            base, self._newest = self._newest, self._counting
        return base, base if base is self._counting else None

    def _write(self, variable: Variable, array: Array, delta: bool) -> int:
        """Write a weight to a copy that does not count; returns its mark."""
        copy = 2 if self._counting.copy_of(variable.number) == 1 else 1
        exported, target = variable.copies[0], variable.copies[copy]
        if delta:
            put_sum(target, exported, array)
        else:
            put(target, array)
        self._writes += 1
        return mark(self._writes, copy)

    def _finish(self, edition: Edition, at_once: bool) -> None:
        """Make `edition` the newest, and where no other rank is waited for, the one that counts."""
        for tenant in self._tenants:
            if tenant.seats:
                tenant.seats.make(edition)
        with self._offering:
            self._newest = edition
            if at_once:
                self._publish(edition)

    def _publish(self, edition: Edition) -> None:
        self._counting = edition  # first: whoever holds the next generation must find it here
        self._control.publish(edition)

    def _make_room(self, wanted: Mapping[Variable, Array]) -> None:
        for number, batch in enumerate(self._inventory.batches):
            spares = batch.make_room(wanted)
            if spares and not number:
                for sharing in (sharing for tenant in self._tenants for sharing in tenant.sharings):
                    sharing.publish(spares.fds)
