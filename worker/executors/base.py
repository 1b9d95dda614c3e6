"""What an executor is: it prepares segments, and a prepared segment runs on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from numpy.typing import NDArray

from ..external import NO_MEMORY
from ..plan import Segment

if TYPE_CHECKING:
    from ...comm.sharing.device_memory import DeviceArray

Array = NDArray[Any]
Operand: TypeAlias = "Array | DeviceArray"


class Runnable(Protocol):
    """One prepared segment; used from one thread at a time."""

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """Compute the segment's outputs from its inputs, both in the segment's order; weights may be on the device.

        Where `outputs[i]` is an array, the result is written there; where it is None (shape unknown
        before the run) a new array is returned. Arrays are C-contiguous and of the declared dtype and are
        held until the next run. Raises RankFailed with the node that failed.
        """


class Shareable(Runnable, Protocol):
    """A prepared segment that several threads may run at the same time, each through a twin of its own."""

    def twin(self) -> Runnable:
        """The same segment, with the same weights, for another thread, or for other arrays, which stay bound to it."""


class Executor(Protocol):
    """Prepares segments for one device."""

    name: str

    @property
    def options(self) -> str:
        """Everything but the segment that `save`d files depend on, in words."""

    def prepare(self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY) -> Runnable:
        """Load one segment; external initializers lie inside `folder`, or in `memory` where it has their location.

        What lies in memory is copied, so that it can be freed, and never written to a file.
        """

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """Write the segment as this executor prepares it to the new file `place`, beside it its weights.

        Raises ModelError or OSError; then, files may be half written.
        """

    def load(self, segment: Segment, place: str) -> Runnable:
        """Load what `save` wrote for `segment`; processes that load it share its weights. Raises ModelError."""
