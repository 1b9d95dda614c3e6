"""Granted memory: gives requests of a connected program room in the orchestrator's arena."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable

from ...comm.request_memory.free_list import whole_pages
from ...comm.request_memory.tensor_arena import ArenaRegion, TensorArena
from ..endpoint.messages import Room, RoomReturn, RoomWish
from ..requests.inputs import NoRoomYet
from .link import EndpointLink, Told, required

_KEPT = 128 << 20
"""Bytes of free rooms that are kept for later requests."""

_STEPS = 8
"""Sizes of rooms between a power of two and the next one."""


class GrantedRegion(ArenaRegion):
    """A room; it may be used for another request once no reference to this object is left."""

    __slots__ = ("_memory", "spoiled")

    def __init__(self, memory: GrantedMemory, offset: int, size: int) -> None:
        self._memory = memory
        self.spoiled = False
        """Whether ranks may read it for longer than this program knows."""

        super().__init__(memory.arena, offset, size)

    def __del__(self) -> None:
        self._memory.unused(self.offset, self.size, self.spoiled)


class GrantedMemory:
    """Rooms that are free are used again, and given back where they are many. For any thread."""

    def __init__(
        self, arena: TensorArena, link: EndpointLink, wait: Callable[[RoomAnswer], None] | None
    ) -> None:
        """`wait` returns once an answer is there; None: in an event loop, which cannot wait."""
        self.arena = arena
        self._link = link
        self._wait = wait
        self._free: defaultdict[int, list[int]] = defaultdict(list)
        self._bytes = 0
        self._unused: deque[tuple[int, int, bool]] = deque()
        self._lock = threading.Lock()

    def allocate(self, size: int) -> ArenaRegion:
        """A room of `size` bytes; waits where the orchestrator has to be asked for it.

        Raises OutOfMemory, Closed; NoRoomYet in place of a wait that cannot be.
        """
        found = self.taken(size)
        if found is not None:
            return found
        if self._wait is None:
            raise NoRoomYet(f"there is no free room of {size} bytes yet.")
        answer = RoomAnswer()
        self.request(size, answer.tell)
        self._wait(answer)
        return self.granted(answer.told)

    def taken(self, size: int) -> GrantedRegion | None:
        """A free room of `size` bytes; None where there is none."""
        self.tidy()
        wanted = room_size(size)
        with self._lock:
            offsets = self._free[wanted]
            if not offsets:
                return None
            self._bytes -= wanted
            return GrantedRegion(self, offsets.pop(), wanted)

    def request(self, size: int, tell: Callable[[Told], None]) -> None:
        """Ask the orchestrator for a room of `size` bytes. Raises Closed."""
        wanted = room_size(size)
        self._link.ask(lambda number: RoomWish(number, wanted), tell, at_once=True)

    def granted(self, told: Told) -> GrantedRegion:
        """The room of an answer; raises OutOfMemory, Closed."""
        room = required(told, Room)
        return GrantedRegion(self, room.offset, room.size)

    def discard(self, told: Told) -> None:
        """An answer is not needed any more: its room, if it is one, is free."""
        if isinstance(told, Room):
            self.unused(told.offset, told.size, False)

    def unused(self, offset: int, size: int, spoiled: bool) -> None:
        """A room is used no more; in any thread, at any time: no lock may be taken here."""
        self._unused.append((offset, size, spoiled))
        self._link.ring()

    def tidy(self) -> None:
        """Sort what is used no more: some is kept, the rest given back."""
        returned = []
        with self._lock:
            while self._unused:
                offset, size, spoiled = self._unused.popleft()
                if spoiled or self._bytes + size > _KEPT:
                    returned.append(offset)
                else:
                    self._free[size].append(offset)
                    self._bytes += size
        self._give_back(returned)

    def trim(self) -> None:
        """Give all free rooms back."""
        with self._lock:
            returned = [offset for offsets in self._free.values() for offset in offsets]
            self._free.clear()
            self._bytes = 0
        self._give_back(returned)

    def _give_back(self, offsets: list[int]) -> None:
        if offsets and not self._link.closing:
            self._link.send(RoomReturn(offsets))


class RoomAnswer:
    """The answer to a request for a room."""

    def __init__(self) -> None:
        self._there = threading.Event()
        self.told: Told

    def tell(self, told: Told) -> None:
        """Take the answer."""
        self.told = told
        self._there.set()

    @property
    def there(self) -> bool:
        """Whether it is there."""
        return self._there.is_set()

    def wait(self) -> None:
        """Wait until it is there, or the link has ended."""
        self._there.wait()


def room_size(size: int) -> int:
    """`size` in bytes, rounded up: rooms have few sizes, so that requests can share them."""
    size = whole_pages(size)
    step = 1 << max(12, size.bit_length() - _STEPS.bit_length())
    return -(-size // step) * step
