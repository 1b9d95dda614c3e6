"""Weight client: weights of another process, mapped for reading and followed as it updates them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...comm.errors import UsageError
from ...comm.job.rank import Rank
from ...comm.sharing.attachment import Attachment
from ..partition.plan import Plan
from .control import ControlPage, WeightSnapshot
from .live_sessions import LiveSessions
from .live_source import WeightDevice
from .plan_weights import (
    WeightReader,
    content_digests,
    model_identity,
    weights_of,
    with_live_weights,
)
from .readers import SnapshotReader, VersionAgreement
from .store import WeightStore, WeightVariable
from .weight_file import WeightFile

_AGREEMENT = 30.0
"""Seconds in which the owners of all ranks' weights must come to one version."""


class WeightClient:
    """See LiveWeights: the weights behind one handle, of the same model on the same device."""

    def __init__(
        self,
        handle: int,
        plan: Plan,
        texts: Mapping[str, memoryview],
        rank: Rank,
        device: WeightDevice,
    ) -> None:
        """Ask the owner for its weights; `texts` has the plain text of encrypted files.

        Raises UsageError with the owner's reason where it refuses.
        """
        weights = weights_of(plan)
        with WeightReader(plan, texts) as reader:
            digests = content_digests(weights, reader)
            identity = model_identity(with_live_weights(plan, weights), digests, reader)
        self._gpu = device.gpu
        self._attachment = Attachment(handle, identity, device.name)
        try:
            self._control = ControlPage.open(self._attachment.fds[0])
            exported = WeightFile.open(self._attachment.fds[1:], device.gpu)
            self._reader = SnapshotReader(self._attachment.lease, self._control.word)
        except BaseException:
            self._attachment.close()
            raise
        self.store = WeightStore(  # numbered in the order of the file
            {
                name: WeightVariable(number, arrays[0])
                for number, (name, arrays) in enumerate(exported.arrays.items())
            }
        )
        self._taken = 1 + exported.taken  # of the descriptors that came
        self._snapshot: WeightSnapshot | None = None
        self._lost = ""
        """Why the owner no longer gives its weights to this process; empty while it does."""

    @property
    def version(self) -> int:
        """See LiveWeights.version."""
        return self._control.version

    @property
    def handle(self) -> None:
        """See LiveWeights.handle: only an owner shares weights."""

    @contextmanager
    def hold(self, agreement: VersionAgreement | None) -> Iterator[WeightSnapshot]:
        """See LiveWeights.hold. The owners of all ranks come to one version soon: waits for it."""
        deadline = time.monotonic() + _AGREEMENT
        while True:
            with self._reader.hold() as generation:
                snapshot = self._current(generation)
                if agreement is None or agreement.same(snapshot.version):
                    yield snapshot
                    return
            if time.monotonic() > deadline:
                raise UsageError(
                    f"the ranks' weights have had different versions for {_AGREEMENT:g} s (here "
                    f"{snapshot.version}): update the owners of all ranks."
                )

    @contextmanager
    def install(self, sessions: LiveSessions) -> Iterator[WeightSnapshot]:
        """See LiveWeights.install."""
        with self._reader.hold() as generation:
            yield self._current(generation)

    def close(self) -> None:
        """See LiveWeights.close: the owner no longer counts this process among the holders."""
        self._attachment.close()

    def _current(self, generation: int) -> WeightSnapshot:
        """The snapshot of a generation that is held, with the files that it needs."""
        if self._lost:
            raise UsageError(self._lost)
        if self._snapshot is None or self._snapshot.generation != generation:
            snapshot = self._control.read(generation)
            self._take_files()
            if not self.store.has(snapshot):
                self._fetch()
                self._take_files()
            self._snapshot = snapshot
        return self._snapshot

    def _take_files(self) -> None:
        while fds := self._attachment.fds[self._taken :]:
            file = WeightFile.open(fds, self._gpu)
            self.store.add(file.arrays)
            self._taken += file.taken

    def _fetch(self) -> None:
        """Get the files of an update.

        A process that is refused stops being a holder. Updates do not wait for it, so it must not
        read on.
        """
        try:
            self._attachment.fetch()
        except UsageError as error:
            self._lost = (
                "the owner has updated the weights, and this process does not get them any more: "
                f"{error} Build the model anew."
            )
            raise UsageError(self._lost) from error
