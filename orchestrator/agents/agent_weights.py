"""Agent's weights: the updated weights that the host of one agent has, once for all its ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary, finalize

from ...comm.agents.messages import ToAgent
from ...comm.agents.weight_messages import DropWeights, PutWeight
from ...comm.request_memory.owned_arena import Region


class AgentWeights:
    """Weights in memory of this host, by the agent's keys for them; for the loop's thread.

    The agent frees them after this host has.
    """

    def __init__(self, send: Callable[[ToAgent, Sequence[memoryview]], None]) -> None:
        """`send` takes messages for the agent, and the bytes that follow them."""
        self._send = send
        self._keys: WeakKeyDictionary[Region, int] = WeakKeyDictionary()
        self._given = 0
        self._freed: deque[int] = deque()

    def have(self, regions: Sequence[Region], filled: bool) -> list[int]:
        """The keys of regions; what the agent lacks is sent, or where not `filled`, its size."""
        self.drop_freed()
        return [self._keys.get(region) or self._put(region, filled) for region in regions]

    @property
    def stale(self) -> bool:
        """Whether the agent has weights that this host has freed; from any thread."""
        return bool(self._freed)

    def drop_freed(self) -> None:
        """Have the agent free what this host has freed."""
        freed = [self._freed.popleft() for _ in range(len(self._freed))]
        if freed:
            self._send(DropWeights(freed), ())

    def lack(self, key: int) -> None:
        """The agent has had no memory for a weight: it is put again for the next request."""
        for region in [region for region, known in self._keys.items() if known == key]:
            del self._keys[region]

    def _put(self, region: Region, filled: bool) -> int:
        self._given += 1
        key = self._keys[region] = self._given
        finalize(region, self._freed.append, key).atexit = False
        self._send(PutWeight(key, region.size), [region.contents()] if filled else ())
        return key
