"""Weights of another process, its owner: mapped for reading, and followed when the owner updates them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...comm.errors import UsageError
from ...comm.rank import Rank
from ...comm.sharing.attachment import Attachment
from ...comm.sharing.gpu import Gpu
from ..plan import Plan
from .agreement import Agreement
from .control import Control, Edition
from .identity import content_digests, model_identity
from .live_plan import WeightReader, weights_of, with_live_weights
from .reader import Reader
from .seats import Seats
from .store import Store
from .weight_file import WeightFile

_AGREEMENT = 30.0
"""Seconds in which the owners of all ranks' weights must come to one version."""


class User:
    """The weights behind one handle, of the same model on the same device."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._taken = 0  # of the descriptors that came
        self._edition: Edition | None = None
        self._lost = ""
        self.device, self.opened = "", False
        self.gpu: Gpu | None = None

    def open(self, plan: Plan, memory: Mapping[str, memoryview], rank: Rank) -> None:
        """See LiveWeights.open: ask the owner for them; UsageError with its reason where it refuses."""
        weights = weights_of(plan)
        with WeightReader(plan, memory) as reader:
            digests = content_digests(weights, reader)
            identity = model_identity(with_live_weights(plan, weights), digests, reader)
        self._attachment = Attachment(self._handle, identity, self.device)
        self._control = Control.open(self._attachment.fds[0])
        exported = WeightFile.open(self._attachment.fds[1:], self.gpu)
        self.store = Store.of_file(exported)
        self._taken = 1 + exported.taken
        self._reader = Reader(self._attachment.lease, self._control.word)
        self.opened = True

    @property
    def version(self) -> int:
        """See LiveWeights.version."""
        return self._control.version

    @contextmanager
    def hold(self, agreement: Agreement | None) -> Iterator[Edition]:
        """See LiveWeights.hold. Where ranks agree, their owners do too, at nearly the same time: this waits for it."""
        deadline = time.monotonic() + _AGREEMENT
        while True:
            with self._reader.hold() as generation:
                edition = self._current(generation)
                if agreement is None or agreement.same(edition.version):
                    yield edition
                    return
            if time.monotonic() > deadline:
                raise UsageError(f"the ranks' weights have had different versions for {_AGREEMENT:g} s (here "
                                 f"{edition.version}): update the owners of all ranks.")

    @contextmanager
    def seat(self, seats: Seats) -> Iterator[Edition]:
        """See LiveWeights.seat."""
        with self._reader.hold() as generation:
            yield self._current(generation)

    def close(self) -> None:
        """See LiveWeights.close: give up the place among those that hold the weights."""
        if self.opened:
            self._attachment.close()

    def _current(self, generation: int) -> Edition:
        """The edition of a generation that is held, with the files that it needs."""
        if self._lost:
            raise UsageError(self._lost)
        if self._edition is None or self._edition.generation != generation:
            edition = self._control.read(generation)
            self._take_files()
            if not self.store.has(edition):
                self._fetch()
                self._take_files()
            self._edition = edition
        return self._edition

    def _take_files(self) -> None:
        while fds := self._attachment.fds[self._taken:]:
            file = WeightFile.open(fds, self.gpu)
            self.store.add(file)
            self._taken += file.taken

    def _fetch(self) -> None:
        """Get the files of an update. Who is refused is no holder any more, whom updates wait for: it must not read."""
        try:
            self._attachment.fetch()
        except UsageError as error:
            self._lost = (f"the owner has updated the weights, and this process does not get them any more: {error} "
                          f"Build the model anew.")
            raise UsageError(self._lost) from error
