"""Simulated agent: the real protocol of an agent, with ranks that only draw how long they take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from rankmesh.comm.agents.messages import (
    EndIncarnation,
    FromAgent,
    IncarnationEnded,
    IncarnationProgress,
    PrepareIncarnation,
    RankEnded,
    RankProgress,
    RankReported,
    RankStarted,
    StartRank,
    ToAgent,
    decode_from_agent,
    decode_to_agent,
    encode_from_agent,
    encode_to_agent,
)
from rankmesh.comm.agents.order_messages import (
    OrderAnswer,
    OrderDone,
    RunOrder,
)
from rankmesh.comm.job_memory.progress import ProgressSnapshot, Stage
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.orders import Answer, InvalidRankData, ModelReport
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.comm.transport.frame_stream import StreamEnded
from rankmesh.comm.transport.messages import AgentJoin
from rankmesh.comm.transport.seal import Seal, SealBroken
from rankmesh.orchestrator.agents.remote_agent import RemoteAgent

from .chance import Chance
from .virtual_time import VirtualLoop

SIZE = 16
"""float32 numbers of an input, and of an output: twice the input."""

_KEY = bytes(32)
_KILL = 0.05
"""Seconds until killed processes are gone."""

_TELL = 0.0002
"""Seconds of a message from host to host."""

_PROGRESS = 0.1
"""Seconds between looks at the progress of ranks."""


@dataclass
class Traffic:
    """Messages and bytes of one direction, seals included."""

    messages: int = 0
    size: int = 0

    def count(self, message: bytes, tensors: Sequence[bytes]) -> None:
        """Count a message, and the tensors behind it."""
        self.messages += 1
        self.size += len(message) + sum(map(len, tensors))


class SimulatedIncarnation:
    """The ranks of one incarnation: all begin an order together, and answer it together."""

    def __init__(self, agent: SimulatedAgent, message: PrepareIncarnation) -> None:
        self.ranks = [spec.rank.rank for spec in message.ranks]
        self._agent = agent
        self._number = message.incarnation
        self._alive = True
        self._started = 0
        self._answered = 0
        self._telling = False
        self._orders: deque[tuple[RunOrder, list[bytes]]] = deque()

    def handle(self, message: ToAgent, tensors: list[bytes]) -> None:
        """Do what the orchestrator asks; other weights, stacks and the like are not simulated."""
        match message:
            case StartRank():
                self._start(message.rank)
            case RunOrder():
                self._orders.append((message, tensors))
                if len(self._orders) == 1:
                    self._begin()
            case EndIncarnation():
                self._alive = False
                self._agent.after(_KILL, self._end)

    def lose_rank(self, rank: int) -> None:
        """A process is killed; its agent tells at once."""
        if self._alive and self._started == len(self.ranks):
            self._alive = False
            self._agent.tell(RankEnded(self._number, rank, "was killed by SIGKILL"))

    def break_network(self) -> None:
        """The network between the ranks fails: all give up their collective, and none ends."""
        if self._alive and self._orders:
            self._alive = False
            error = Answer(
                [], error="CollectiveAborted", text="gloo failed", ended=False, entered=1
            )
            number = self._orders[0][0].number
            for rank in self.ranks:
                self._agent.tell(OrderAnswer(self._number, number, rank, error))

    def _start(self, rank: int) -> None:
        self._agent.tell(RankStarted(self._number, rank, 1000 + rank, ""))
        self._started += 1
        if self._started == len(self.ranks):
            seconds = self._agent.chance.start
            self._agent.after(seconds, self._report)

    def _report(self) -> None:
        self._tell_progress()
        for rank in self.ranks if self._alive else ():
            report = msgspec.msgpack.encode(_report(rank == 0))
            self._agent.tell(RankReported(self._number, rank, report))

    def _look(self) -> None:
        """Tell of the progress since the last look."""
        self._telling = False
        if self._alive:
            self._tell_progress()

    def _tell_progress(self) -> None:
        progress = ProgressSnapshot(Stage.RUNNING, None, 0, None, run_seconds=self._answered)
        ranks = [RankProgress(rank, progress, False) for rank in self.ranks]
        self._agent.tell(IncarnationProgress(self._number, -1, 0, ranks))

    def _begin(self) -> None:
        if self._alive and self._orders:
            self._agent.after(self._agent.chance.service, self._answer)

    def _answer(self) -> None:
        """Send the answers of all ranks, and begin the next order."""
        if not self._alive:
            return
        order, tensors = self._orders.popleft()
        self._answered += 1
        if not self._telling:
            self._telling = True
            self._agent.after(_PROGRESS, self._look)
        output = np.frombuffer(tensors[0], np.float32) * 2
        given = [output.tobytes()] if order.given[0] else []
        sizes = [output.nbytes] * len(given) + [0] * (len(self.ranks) - len(given))
        self._agent.tell(OrderDone(self._number, order.number, sizes), given)
        self._begin()

    def _end(self) -> None:
        self._agent.tell(IncarnationEnded(self._number, []))


class SimulatedAgent(RemoteAgent):
    """See RemoteAgent. All of the orchestrator's work for a message is done, but for its socket."""

    def __init__(
        self,
        joined: AgentJoin,
        loop: VirtualLoop,
        on_lost: Callable[[RemoteAgent], None],
        chance: Chance,
        arena: OwnedArena,
        address: str,
    ) -> None:
        super().__init__(joined, loop, on_lost, address)
        self.chance = chance
        self.incarnations: dict[int, SimulatedIncarnation] = {}
        self.sent, self.received = Traffic(), Traffic()
        self.leave: Callable[[], None] = self.cut_off
        """Called when the orchestrator ends the connection."""

        self._arena = arena
        self._virtual = loop
        self._up = True
        self._seals = [Seal(_KEY) for _ in range(4)]

    def send(self, message: ToAgent, tensors: Sequence[memoryview]) -> None:
        """See RemoteAgent.send: seal it, and let the host have it."""
        sealed = self._seals[0].close(encode_to_agent(message))
        parts = [self._seals[0].close(tensor) for tensor in tensors]
        self._virtual.meter.outside(lambda: self._deliver(sealed, parts))

    def tell(self, message: FromAgent, tensors: Sequence[bytes] = ()) -> None:
        """Send a message to the orchestrator, from the host; nothing, once that is cut off."""
        if self._up:
            sealed = self._seals[2].close(encode_from_agent(message))
            parts = deque(self._seals[2].close(tensor) for tensor in tensors)
            self.sent.count(sealed, parts)
            size = sum(map(len, tensors))
            self._virtual.simulate(_TELL, lambda: self._arrive(sealed, parts, size))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` on the host, after `seconds`, if it is still there."""
        self._virtual.simulate(seconds, lambda: action() if self._up else None)

    def cut_off(self) -> None:
        """The host fails."""
        self._up = False

    def end(self, reason: str | None = None) -> None:
        """See RemoteAgent.end: the orchestrator ends the connection."""
        super().end(reason)
        self.leave()

    def give_up(self) -> None:
        """The orchestrator has waited for a sign of life for long enough."""
        self._lose()

    def _deliver(self, sealed: bytes, parts: list[bytes]) -> None:
        if not self._up:
            return
        self.received.count(sealed, parts)
        message = decode_to_agent(self._seals[1].open(sealed))
        tensors = [self._seals[1].open(part) for part in parts]
        if isinstance(message, PrepareIncarnation):
            self.incarnations[message.incarnation] = SimulatedIncarnation(self, message)
        elif message.incarnation in self.incarnations:
            told = self.incarnations[message.incarnation]
            self.after(_TELL, lambda: told.handle(message, tensors))

    def _arrive(self, sealed: bytes, parts: deque[bytes], size: int) -> None:
        """As RemoteAgent takes messages from its connection."""

        def read_into(room: memoryview) -> None:
            data = self._seals[3].open(parts.popleft()) if parts else b""
            if len(data) != len(room):
                raise StreamEnded(f"{len(data)} bytes came in the place of {len(room)}")
            room[:] = data

        def take() -> None:
            try:
                message = decode_from_agent(self._seals[3].open(sealed))
                ranks = self._incarnations.get(message.incarnation)
                if ranks is not None:
                    ranks.take(message, size, read_into)
            except (
                InvalidRankData,
                SealBroken,
                StreamEnded,
            ):  # bytes that were not read break the seals
                self.leave()

        if not self.lost:
            self._virtual.meter.inside(take)


def _report(results: bool) -> ModelReport:
    given = TensorSpec("x", "float32", (SIZE,))
    output = TensorSpec("y", "float32", (SIZE,))
    return ModelReport("simulated.mindir", (given,), (output,), (0,) if results else ())
