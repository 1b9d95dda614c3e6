"""Packed executor: segments are loaded from files of one folder, which hold equal weights once."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping

from ...comm.errors import ModelError, UsageError
from ...comm.host.private_folder import PrivateFolder
from ...comm.loggers import LOG
from ...compiler.onnx_graph.external import NO_MEMORY
from ..partition.plan import Segment
from .base import Executor, ExecutorLayer, Runnable
from .saved_weights import WeightDedup


class PackedFolder:
    """A folder of saved segments of several models, in which equal weights are kept once."""

    def __init__(self) -> None:
        self._folder: PrivateFolder | None = None
        self._weights = WeightDedup()
        self._count = 0
        self._lock = threading.Lock()

    def save(self, segment: Segment, folder: str, executor: Executor) -> str:
        """Save a segment by `executor`; returns its path.

        Raises ModelError, UsageError or OSError.
        """
        with self._lock:
            self._folder = self._folder or PrivateFolder("groups")
            self._count += 1
            place = str(self._folder.path / f"{self._count}.onnx")
            executor.save(segment, folder, place)
            self._weights.share(place)
            return place

    def executor(self, own: Executor) -> PackedExecutor:
        """An executor in front of `own` whose segments lie here."""
        return PackedExecutor(own, self)


class PackedExecutor(ExecutorLayer):
    """Prepares segments by saving them in a PackedFolder and loading them from there."""

    def __init__(self, executor: Executor, folder: PackedFolder) -> None:
        super().__init__(executor)
        self._folder = folder

    def prepare(
        self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY
    ) -> Runnable:
        """See Executor.prepare. A segment whose files cannot or must not be written shares none."""
        if memory:
            LOG.warning(
                "the sessions of an encrypted model share no weights: its plain text would have to "
                "be written to a file."
            )
            return self._executor.prepare(segment, folder, memory)
        try:
            loaded = self._executor.load(
                segment, self._folder.save(segment, folder, self._executor)
            )
        except (ModelError, UsageError, OSError) as error:
            LOG.warning("a model shares no weights with the models of its group: %s", error)
            return self._executor.prepare(segment, folder, memory)
        _return_memory()
        return loaded

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self._executor.options} packed"


def _return_memory() -> None:
    """Return the memory of saving and loading, as much as the weights; glibc would keep it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
