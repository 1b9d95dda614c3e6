"""Weight owner: weights of one model that this process holds, shares and replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from ...comm.arrays import Array
from ...comm.errors import UsageError
from ...comm.job.rank import Rank
from ...comm.loggers import LOG
from ...comm.sharing.broker import Broker
from ...comm.sharing.messages import Update
from ...comm.sharing.whitelist import Whitelist
from ...comm.text import counted
from ..partition.plan import Plan
from .control import WeightSnapshot
from .live_sessions import LiveSessions
from .live_source import WeightDevice
from .plan_weights import (
    WeightReader,
    content_digests,
    model_identity,
    weights_of,
    with_live_weights,
)
from .readers import VersionAgreement
from .settings import WeightSettings
from .store import require_fit
from .updates.names import WeightNames
from .weight_memory import WeightMemory


class WeightOwner:
    """See LiveWeights: one model's weights, in a WeightMemory of its own or of its group."""

    def __init__(
        self,
        settings: WeightSettings,
        memory: WeightMemory,
        plan: Plan,
        texts: Mapping[str, memoryview],
        rank: Rank,
        device: WeightDevice,
    ) -> None:
        """Read the weights into `memory`; `texts` has the plain text of encrypted files."""
        self.rank = rank
        self.delta = settings.delta
        self.path = plan.path
        self._memory = memory
        self._device = device.name
        weights = weights_of(plan)
        self.names = WeightNames(plan, list(weights), settings.names)
        with WeightReader(plan, texts) as reader:
            if settings.pids is not None and not memory.may_admit(weights, reader):
                LOG.warning(
                    "%s: lists processes (shareable_weight_pid_list), which may not have the other "
                    "weights of its group: it shares none with it. Build it before the group's "
                    "other models.",
                    plan.path,
                )
                self._memory = WeightMemory()
            digests = content_digests(weights, reader)
            self.identity = model_identity(with_live_weights(plan, weights), digests, reader)
            self.store, self._entry = self._memory.admit(
                plan.path, weights, digests, reader, device.gpu
            )
        if settings.pids is not None:
            self.share(settings.pids)
        elif settings.names:
            self._serve()

    @property
    def version(self) -> int:
        """See LiveWeights.version."""
        return self._memory.version

    @property
    def handle(self) -> int | None:
        """See LiveWeights.handle."""
        return self.broker.handle if self.broker else None

    @property
    def broker(self) -> Broker | None:
        """The broker that hands out the weights; None where they are not shared."""
        brokers = self._entry.brokers
        return None if not brokers or brokers[-1].retired else brokers[-1]

    def share(self, pids: Sequence[int]) -> Broker:
        """Hand the weights to these processes when they ask; more may be listed later.

        Raises UsageError where some of the weights came with another model of the group, whose
        weights those processes may not have.
        """
        if not self._memory.are_first(self.store):
            raise UsageError(
                f"{self.path}: its weights lie with those of {self._memory.first}, which its group "
                "built before: share that model, or build this one first."
            )
        broker = self._serve()
        for pid in pids:
            broker.allow(pid)
        return broker

    def hold(self, agreement: VersionAgreement | None) -> AbstractContextManager[WeightSnapshot]:
        """See LiveWeights.hold."""
        return self._memory.hold(self._entry, agreement)

    def install(self, sessions: LiveSessions) -> AbstractContextManager[WeightSnapshot]:
        """See LiveWeights.install."""
        return self._memory.install(self._entry, sessions)

    def update(self, arrays: Mapping[str, Array], delta: bool) -> int:
        """Replace weights, or with `delta` set them to the exported ones plus `arrays`.

        Returns the new version. Raises InputError, naming the weight, where a shape or dtype is
        not the weight's, and what WeightMemory.update raises; then nothing has changed.
        """
        for name, array in arrays.items():
            wanted = self.store.variables[name].copies[0]
            require_fit(f"the weight '{name}'", wanted, array.shape, str(array.dtype), delta)
        variables = {self.store.variables[name]: array for name, array in arrays.items()}
        return self._memory.update(variables, delta, self.rank.world_size == 1)

    def rollback(self) -> int:
        """See WeightMemory.rollback."""
        return self._memory.rollback(self.rank.world_size == 1)

    def update_from(self, fd: int, request: Update) -> str:
        """Take the weights of the named file, which must be the one that `fd` has open.

        Returns what was done.
        """
        from .updates.new_values import require_same_file, weights_from

        require_same_file(fd, request.name)
        arrays = weights_from(request.name, self.names, self.rank, request.layout)
        version = self.update(arrays, request.delta or self.delta)
        return f"updated {counted(len(arrays), 'weight')} of {self.path}: version {version}"

    def close(self) -> None:
        """See LiveWeights.close."""
        self._memory.leave(self._entry)

    def _serve(self) -> Broker:
        """The broker, started if there is none; it hands out nothing before a process is listed."""
        with self._memory.lock:
            serving = self.broker
            if serving is None:
                files = self._memory.files if self._memory.are_first(self.store) else ()
                serving = Broker(
                    Whitelist(),
                    self.identity,
                    self._device,
                    files,
                    self.update_from,
                    self.rank.rank,
                )
                serving.start()
                self._entry.brokers.append(serving)
            return serving
