"""Remote agent: one that has joined, the places on its host, and the ranks in them."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...comm.agents.messages import (
    FromAgent,
    ToAgent,
    decode_from_agent,
    encode_to_agent,
)
from ...comm.agents.weight_messages import WeightLacking
from ...comm.job.placement import RankSpec, core_shares
from ...comm.job.rank import Rank
from ...comm.serving.orders import InvalidRankData
from ...comm.transport.frame_stream import FrameStream, StreamEnded
from ...comm.transport.messages import AgentJoin
from ...comm.transport.seal import Seal, SealKeys
from ..event_loop.loop import EventLoopThread
from .agent_weights import AgentWeights
from .arena_holders import ArenaHolders
from .connections.agent_reader import AgentReader
from .connections.rank_connection import RankConnection, RankConnections
from .connections.read_connection import ReadConnection
from .remote_part import RemotePart

_LOG = logging.getLogger("rankmesh.orchestrator")


class RemoteAgent(ReadConnection[ToAgent, FromAgent]):
    """One agent's life, from its joining until its connection ends.

    Places are the loop's thread's. `on_lost` is called there, once, with the agent.
    """

    def __init__(
        self,
        joined: AgentJoin,
        loop: EventLoopThread,
        on_lost: Callable[[RemoteAgent], None],
        address: str = "",
    ) -> None:
        """`address` is that of its host, as this one sees it."""
        self.joined = joined
        self.address = address
        self.reason = "its process was ended, or its host or the network to it is down"
        """Why it was lost."""

        self.lost = False
        self._loop = loop
        self._on_lost = on_lost
        self._places: list[RemotePart | None] = [None] * joined.ranks
        self._shares = core_shares(joined.cores, joined.ranks)
        self._incarnations: dict[int, RemotePart] = {}
        self._ranks: RankConnections | None = None
        self.weights = AgentWeights(self.send)
        self._holders: ArenaHolders | None = None
        self._thread = threading.Thread(target=self._receive, name="rankmesh-agent", daemon=True)

    def __str__(self) -> str:
        joined = self.joined
        return f"agent {joined.name} (process {joined.pid} on {joined.host})"

    @property
    def free(self) -> int:
        """How many more ranks it takes."""
        return 0 if self.lost else self._places.count(None)

    @property
    def shares_arena(self) -> bool:
        """Whether its ranks have the orchestrator's arena: no tensors are sent."""
        return self._holders is not None

    def begin(
        self,
        sock: socket.socket,
        keys: SealKeys,
        clear: bool,
        *,
        holders: ArenaHolders | None = None,
        ranks: RankConnections | None = None,
    ) -> None:
        """Take messages of the agent's connection. With `holders`, its ranks share the arena; else
        `ranks` makes connections of their own.
        """
        self._holders, self._ranks = holders, ranks
        seals = (Seal(keys.listener), Seal(keys.caller))
        self._stream = FrameStream(sock, seals, clear, encode_to_agent, decode_from_agent)
        self._reader = AgentReader(self._stream, self._take)
        self._thread.start()

    def specs(
        self, devices: Mapping[int, int | None], world_size: int, threads: int | None
    ) -> tuple[RankSpec, ...]:
        """Ranks of an incarnation on free places of this host, each with its cores.

        `devices` are those of the ranks, with None that of the place.
        """
        host, here = self.joined.host, len(devices)
        specs = []
        for local, (place, (rank, device)) in enumerate(
            zip(self._free_places(), devices.items(), strict=False)
        ):
            given = place if device is None else device
            specs.append(
                self._spec(place, Rank(rank, world_size, local, here, host, given), threads)
            )
        return tuple(specs)

    def take(self, part: RemotePart) -> None:
        """Have the ranks of an incarnation in the first free places, for which its specs are."""
        self._incarnations[part.incarnation] = part
        for place in self._free_places()[: len(part.specs)]:
            self._places[place] = part

    def release(self, part: RemotePart) -> None:
        """Free the places of an incarnation that is gone."""
        self._incarnations.pop(part.incarnation, None)
        self._places = [None if one is part else one for one in self._places]

    def rank_connection(self) -> RankConnection | None:
        """A connection for the orders of one rank; None where it shares the arena."""
        return None if self._ranks is None else self._ranks.new()

    def end(self, reason: str | None = None) -> None:
        """End the connection; from any thread."""
        if reason is not None:
            self.reason = reason
        if self._stream is not None:
            self._stream.close()

    def join(self) -> None:
        """Wait until no thread has the connection."""
        if self._thread.is_alive():
            self._thread.join()

    def _free_places(self) -> list[int]:
        return [place for place, part in enumerate(self._places) if part is None]

    def _spec(self, place: int, rank: Rank, threads: int | None) -> RankSpec:
        share = self._shares[place]
        wanted = threads or max(1, len(share))
        return RankSpec(rank, share if wanted <= len(share) else (), wanted)

    def _receive(self) -> None:
        assert self._reader is not None
        try:
            self._reader.serve()
        except (StreamEnded, InvalidRankData) as error:
            _LOG.info("the connection to %s has ended: %s", self, error)
        finally:
            self._loop.call_soon(self._lose)

    def _take(self) -> None:
        """Take the next message. Raises StreamEnded, InvalidRankData."""
        stream = self._stream
        assert stream is not None
        message, size = stream.receive()
        if isinstance(message, WeightLacking):
            self._loop.call_soon(partial(self.weights.lack, message.key))
            return
        part = self._incarnations.get(message.incarnation)
        if part is None:
            number = message.incarnation
            raise StreamEnded(f"it told of incarnation {number}, which there is not")
        part.take(message, size, stream.read_into)

    def _lose(self) -> None:
        self.lost = True
        parts = list(self._incarnations.values())
        for part in parts:
            part.lose(f"was lost with {self}: {self.reason}")
        if self._holders is None:
            _note_gone(parts)
        else:
            self._holders.when_gone(self._loop, partial(_note_gone, parts))
        self._on_lost(self)


def _note_gone(parts: Sequence[RemotePart]) -> None:
    for part in parts:
        part.note_gone()
