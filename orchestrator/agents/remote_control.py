"""Remote control: starts ranks on the host of an agent, and asks them about their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ...comm.agents.messages import StartRank, ToAgent
from ...comm.agents.weight_messages import AskRank, RankAnswered
from ...comm.request_memory.owned_arena import Region
from ...comm.serving.orders import InvalidRankData, ServeJob
from ..replica.control import PlacedRequest
from .agent_weights import AgentWeights


class RemoteControl:
    """For the loop's thread, but for `take_weights`, which is for that of the agent's messages."""

    def __init__(
        self,
        incarnation: int,
        weights: AgentWeights,
        send: Callable[[ToAgent, Sequence[memoryview]], None],
    ) -> None:
        """`weights` are what the agent has; `send` takes messages for it."""
        self._incarnation = incarnation
        self._weights = weights
        self._send = send
        self._starts: list[tuple[StartRank, Sequence[Region]]] = []
        self._written: dict[tuple[int, int], Sequence[Region]] = {}
        """By rank and number of a request: the weights that the rank writes for it."""

    def prepare(self, rank: int, job: ServeJob, weights: Sequence[Region], timeout: float) -> int:
        """Add a rank to those that `start_all` starts; how many there are. See SupervisedRanks."""
        message = StartRank(self._incarnation, rank, msgspec.msgpack.encode(job), timeout)
        self._starts.append((message, weights))
        return len(self._starts)

    def start_all(self) -> None:
        """Start the ranks, once their host has or gets the files of their shards."""
        for message, weights in self._starts:
            keys = self._weights.have(weights, filled=True)
            self._send(msgspec.structs.replace(message, keys=keys), ())
        self._starts.clear()

    def ask(self, rank: int, number: int, request: PlacedRequest) -> None:
        """See SupervisedRanks.ask."""
        keys = self._weights.have(request.regions, request.reads)
        if request.writes:
            self._written[rank, number] = request.regions
        message = AskRank(self._incarnation, rank, number, request.data, keys, request.writes)
        self._send(message, ())

    def take_weights(
        self, answer: RankAnswered, size: int, read_into: Callable[[memoryview], None]
    ) -> None:
        """Read weights that a rank has written, `size` bytes. Raises InvalidRankData."""
        regions = self._written.pop((answer.rank, answer.number), ())
        if size not in (0, sum(region.size for region in regions)):
            raise InvalidRankData(answer.rank, f"sent {size} bytes of weights, which are others")
        for region in regions if size else ():
            read_into(region.contents())
