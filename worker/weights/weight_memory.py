"""Weight memory: weights in memory of this process, of one model or of all models of a group."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from onnx import TensorProto

from ...comm.arrays import Array
from ...comm.errors import UsageError
from ...comm.sharing.broker import Broker
from ...comm.sharing.device_memory import MemoryDevice
from ...comm.sharing.lease import Lease
from .control import OwnControlPage, WeightSnapshot, mark
from .inventory import WeightInventory
from .live_sessions import LiveSessions
from .plan_weights import WeightReader
from .readers import SnapshotReader, VersionAgreement, wait_for_readers
from .store import WeightStore, WeightVariable, put, put_sum


@dataclass(eq=False, slots=True)
class OwnerEntry:
    """One model that computes with the weights: its reader, its sessions, and its brokers."""

    reader: SnapshotReader
    sessions: LiveSessions | None = None
    """The sessions of its newest program; None before the first."""

    brokers: list[Broker] = field(default_factory=list)
    """The last one serves, unless it is retired; those before are, and may have clients yet."""


class WeightMemory:
    """Weights, each once. Any thread may update them; one thread per entry runs its model.

    An update writes to copies that no request reads, and waits for readers of the version before
    the last alone. Requests that begin afterwards see all of it, those before nothing.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while weights or sessions change."""

        self.first = ""
        """The model whose weights came first, all of which other processes can have."""

        self._offering = threading.Lock()  # held while the newest snapshot becomes the current one
        self._inventory = WeightInventory()
        weakref.finalize(self, self._inventory.close).atexit = False
        self._entries: list[OwnerEntry] = []
        self._current = WeightSnapshot(0, 0, ())
        self._newest = self._current  # another one until all ranks have it
        self._previous: WeightSnapshot | None = None
        self._writes = 0

    def admit(
        self,
        path: str,
        weights: Mapping[str, TensorProto],
        digests: Mapping[str, bytes],
        reader: WeightReader,
        gpu: MemoryDevice | None,
    ) -> tuple[WeightStore, OwnerEntry]:
        """Add a model; returns the store of its weights, which lie on `gpu` if there is one.

        Weights that are here already are not kept again. `digests` are those of content_digests.
        """
        with self.lock:
            variables = self._inventory.add(weights, digests, reader, gpu)
            if not self.first:
                self.first = path
                self._control = OwnControlPage(self._inventory.count)
                weakref.finalize(self, self._control.close).atexit = False
            self._lengthen()
            fd, lease = Lease.make()
            os.close(fd)
            entry = OwnerEntry(SnapshotReader(lease, self._control.word))
            self._entries.append(entry)
            return WeightStore(variables), entry

    def leave(self, entry: OwnerEntry) -> None:
        """Remove a model: its brokers close, and updates no longer wait for its readers."""
        for broker in entry.brokers:
            broker.close()
        with self.lock:
            self._entries.remove(entry)

    @property
    def version(self) -> int:
        """How many updates are in effect."""
        return self._newest.version

    def may_admit(self, weights: Mapping[str, TensorProto], reader: WeightReader) -> bool:
        """Whether a model with these weights could share them with other processes from here."""
        with self.lock:
            return not self.first or self._inventory.is_first(weights, reader)

    def are_first(self, store: WeightStore) -> bool:
        """Whether a model's weights are those that came first, no more and no less."""
        return set(store.index.values()) == set(range(self._control.count))

    @property
    def files(self) -> list[int]:
        """The descriptors for other processes: of the control page and the first weights."""
        return [
            self._control.fd,
            *(fd for file in self._inventory.batches[0].files for fd in file.fds),
        ]

    @contextmanager
    def hold(
        self, entry: OwnerEntry, agreement: VersionAgreement | None
    ) -> Iterator[WeightSnapshot]:
        """See LiveWeights.hold. The newest snapshot becomes current once all ranks have it."""
        if agreement is not None:
            with self._offering:
                if agreement.same(self._newest.version) and self._newest is not self._current:
                    self._publish(self._newest)
        with entry.reader.hold():
            yield self._current

    @contextmanager
    def install(self, entry: OwnerEntry, sessions: LiveSessions) -> Iterator[WeightSnapshot]:
        """See LiveWeights.install."""
        with self.lock, entry.reader.hold():
            yield self._current
            entry.sessions = sessions

    def update(self, arrays: Mapping[WeightVariable, Array], delta: bool, at_once: bool) -> int:
        """Replace weights, or with `delta` set them to the exported ones plus `arrays`.

        Returns the new version, which is current `at_once` or when all ranks have it. Raises
        UsageError where a process computes with an old version for longer than a deadline, naming
        the process; then nothing has changed.
        """
        with self.lock:
            self._wait()
            self._make_room(arrays)
            base, self._previous = self._withdrawn()
            marks = list(base.marks)
            for variable, array in arrays.items():
                marks[variable.number] = self._write(variable, array, delta)
            self._finish(
                WeightSnapshot(self._current.generation + 1, base.version + 1, tuple(marks)),
                at_once,
            )
            return self._newest.version

    def rollback(self, at_once: bool) -> int:
        """Go back to the version before the last update; returns its number.

        Raises UsageError where that version is not there any more.
        """
        with self.lock:
            previous = self._previous
            if previous is None:
                raise UsageError(
                    "there is no version of the weights to go back to: only the one before the "
                    "last update is kept, and only until it was gone back to."
                )
            self._wait()
            self._previous = None
            self._finish(replace(previous, generation=self._current.generation + 1), at_once)
            return self._newest.version

    def _lengthen(self) -> None:
        """Extend all snapshots by the weights that came, as exported."""
        with self._offering:
            same = self._newest is self._current
            self._current = self._lengthened(self._current)
            self._newest = self._current if same else self._lengthened(self._newest)
        self._previous = self._previous and self._lengthened(self._previous)

    def _lengthened(self, snapshot: WeightSnapshot) -> WeightSnapshot:
        return replace(
            snapshot, marks=snapshot.marks + (0,) * (self._inventory.count - len(snapshot.marks))
        )

    def _wait(self) -> None:
        """Wait until no request reads copies that are not of the current snapshot."""
        wait_for_readers(
            [entry.reader.lease for entry in self._entries],
            [broker for entry in self._entries for broker in entry.brokers],
            self._current.generation,
        )

    def _withdrawn(self) -> tuple[WeightSnapshot, WeightSnapshot | None]:
        """The snapshot that the next one starts from, and the one to go back to from there.

        A snapshot that not all ranks have yet is withdrawn, and its copies may be written over.
        """
        with self._offering:
            base, self._newest = self._newest, self._current
        return base, base if base is self._current else None

    def _write(self, variable: WeightVariable, array: Array, delta: bool) -> int:
        """Write a weight to a copy that is not current; returns its mark."""
        copy = 2 if self._current.copy_of(variable.number) == 1 else 1
        exported, target = variable.copies[0], variable.copies[copy]
        if delta:
            put_sum(target, exported, array)
        else:
            put(target, array)
        self._writes += 1
        return mark(self._writes, copy)

    def _finish(self, snapshot: WeightSnapshot, at_once: bool) -> None:
        """Make `snapshot` the newest one, and with `at_once` the current one."""
        for entry in self._entries:
            if entry.sessions:
                entry.sessions.make(snapshot)
        with self._offering:
            self._newest = snapshot
            if at_once:
                self._publish(snapshot)

    def _publish(self, snapshot: WeightSnapshot) -> None:
        self._current = snapshot  # first: a reader of the next generation looks here
        self._control.publish(snapshot)

    def _make_room(self, wanted: Mapping[WeightVariable, Array]) -> None:
        for number, batch in enumerate(self._inventory.batches):
            spares = batch.make_room(wanted)
            if spares and not number:
                for broker in (broker for entry in self._entries for broker in entry.brokers):
                    broker.publish(spares.fds)
