"""An executor in front of another: segments are loaded from files in which equal weights are kept once."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Mapping

from ...comm.errors import ModelError, UsageError
from ..equal_weights import EqualWeights
from ..external import NO_MEMORY
from ..plan import Segment
from ..private_folder import PrivateFolder
from .base import Executor, Runnable

_LOG = logging.getLogger("rankmesh")


class PackedFolder:
    """Where the segments of some models are saved, one at a time, and their weights compared."""

    def __init__(self) -> None:
        self._folder: PrivateFolder | None = None
        self._weights = EqualWeights()
        self._count = 0
        self._lock = threading.Lock()

    def save(self, segment: Segment, folder: str, executor: Executor) -> str:
        """The place of the segment as `executor` saves it. Raises ModelError, UsageError, OSError."""
        with self._lock:
            self._folder = self._folder or PrivateFolder("groups")
            self._count += 1
            place = str(self._folder.path / f"{self._count}.onnx")
            executor.save(segment, folder, place)
            self._weights.share(place)
            return place


class Packed:
    """Prepares segments for `executor`; all that are saved in one PackedFolder share the weights that are equal."""

    def __init__(self, executor: Executor, folder: PackedFolder) -> None:
        self.name = executor.name
        self._executor = executor
        self._folder = folder

    def prepare(self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY) -> Runnable:
        """See Executor.prepare. Where the files cannot be written, or must not, this segment shares nothing."""
        if memory:
            _LOG.warning("the sessions of an encrypted model share no weights: its plain text would have to be written "
                         "to a file.")
            return self._executor.prepare(segment, folder, memory)
        try:
            loaded = self._executor.load(segment, self._folder.save(segment, folder, self._executor))
        except (ModelError, UsageError, OSError) as error:
            _LOG.warning("a model shares no weights with the models of its group: %s", error)
            return self._executor.prepare(segment, folder, memory)
        _return_memory()
        return loaded

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save."""
        self._executor.save(segment, folder, place)

    def load(self, segment: Segment, place: str) -> Runnable:
        """See Executor.load."""
        return self._executor.load(segment, place)

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self._executor.options} packed"


def _return_memory() -> None:
    """Give the system what saving and loading took, as much as the weights: glibc would keep it for later."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
