"""Client regions: the shared memory that clients have registered, by the names they gave it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....comm.errors import InputError
from ..faults import KnownRegion, UnknownRegion, UnsupportedCall
from .client_region import ClientRegion
from .shared_object import checked_prefixes, opened
from .shared_tensor import SharedTensor

MOST_REGIONS = 128
"""How many may be registered at a time; each has an open descriptor."""

NO_CUDA = (
    "CUDA shared memory is not offered by this server: use system shared memory, or send tensors "
    "in binary."
)
_LONGEST_NAME = 255
_LARGEST = (1 << 63) - 1


class ClientRegions:
    """The regions of one server; there are none where no prefix of keys is given."""

    def __init__(self, prefixes: Sequence[str] = ()) -> None:
        """`prefixes` of the keys that clients may use. Raises UsageError."""
        self._prefixes = checked_prefixes(prefixes)
        self._regions: dict[str, ClientRegion] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> None:
        """Have `changed` called whenever regions have come or gone."""
        self._watchers.append(changed)

    @property
    def offered(self) -> bool:
        """Whether clients may register regions."""
        return bool(self._prefixes)

    def require_offered(self) -> None:
        """Raise UnsupportedCall where there is no shared memory of clients."""
        if not self._prefixes:
            raise UnsupportedCall(
                "shared memory is not offered by this server: it was started without "
                "--shared-memory-prefix."
            )

    def register(self, name: str, key: str, offset: int, size: int) -> None:
        """Add a region. Raises InputError, KnownRegion and UnsupportedCall."""
        self.require_offered()
        if name in self._regions:
            raise KnownRegion(f"the region '{name}' is registered already: unregister it first.")
        if not 0 < len(name) <= _LONGEST_NAME:
            raise InputError(f"the name of a region has 1 to {_LONGEST_NAME} letters.")
        if offset < 0 or size <= 0 or offset + size > _LARGEST:
            raise InputError("a region needs a byte_size of 1 or more, and an offset of 0 or more.")
        if len(self._regions) >= MOST_REGIONS:
            raise InputError(
                f"the server has {MOST_REGIONS} regions, which is the limit: unregister others."
            )
        region = ClientRegion(name, key, offset, size, opened(key, self._prefixes))
        region.require()
        self._regions[name] = region
        self._tell()

    def unregister(self, name: str = "") -> None:
        """Forget a region, by default all; one that is unknown is forgotten already."""
        if name:
            self._regions.pop(name, None)
        else:
            self._regions.clear()
        self._tell()

    def listed(self, name: str = "") -> list[ClientRegion]:
        """A region, by default all. Raises UnknownRegion."""
        return [self._find(name)] if name else [*self._regions.values()]

    def tensor(self, region: object, offset: object, size: object) -> SharedTensor | None:
        """The place of a tensor by the three parameters of the protocol; None where it has none.

        Raises InputError, UnknownRegion and UnsupportedCall.
        """
        if region is None and size is None and offset is None:
            return None
        self.require_offered()
        if not isinstance(region, str) or not _count(size) or not _count(offset or 0):
            raise InputError(
                "a tensor in shared memory needs the parameters shared_memory_region (a text) and "
                "shared_memory_byte_size (a number), and may have shared_memory_offset."
            )
        return SharedTensor.within(self._find(region), int(str(offset or 0)), int(str(size)))

    def _tell(self) -> None:
        for changed in self._watchers:
            changed()

    def _find(self, name: str) -> ClientRegion:
        try:
            return self._regions[name]
        except KeyError:
            raise UnknownRegion(f"there is no region '{name:.80}': register it first.") from None


def require_all_cuda_regions(name: str) -> None:
    """Raise UnknownRegion where the status of a named region of CUDA memory is asked for."""
    if name:
        raise UnknownRegion(f"there is no region '{name:.80}' of CUDA memory, nor any other.")


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST
