"""Hosted weights: the updated weights that an orchestrator has put into the memory of this host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from ...comm.agents.messages import FromAgent, StartRank, ToAgent
from ...comm.agents.weight_messages import AskRank, DropWeights, PutWeight, WeightLacking
from ...comm.decoding import decode_sent
from ...comm.errors import OutOfMemory
from ...comm.request_memory.owned_arena import OwnedArena, Region
from ...comm.serving.orders import ServeJob
from ...comm.serving.weights import (
    StageWeights,
    WriteWeights,
    decode_weight_request,
    encode_weight_request,
)
from ...comm.transport.frame_stream import FrameStream
from ..replica.control import PlacedRequest

PlacedT = TypeVar("PlacedT", bound=StageWeights | WriteWeights)


class HostedWeights:
    """By key. The thread that receives messages puts them; that of the loop, which carries requests
    out, places them, and drops them behind the last request that names them.
    """

    def __init__(self, arena: OwnedArena) -> None:
        self._arena = arena
        self._regions: dict[int, Region] = {}
        self._missing = ""

    def put(self, message: PutWeight, size: int, stream: FrameStream[FromAgent, ToAgent]) -> None:
        """Take a weight, whose `size` bytes are in the stream."""
        try:
            region = self._arena.allocate(message.size)
        except OutOfMemory as error:
            self._missing = str(error)
            stream.skip(size)
            stream.send(WeightLacking(message.key))
            return
        if size:
            stream.read_into(region.contents())
        self._regions[message.key] = region

    def drop(self, message: DropWeights) -> None:
        """Free weights."""
        for key in message.keys:
            self._regions.pop(key, None)
        self._arena.trim()

    def request(self, message: AskRank) -> PlacedRequest:
        """A request with the places of its weights on this host.

        Raises OutOfMemory where there was no memory for one of them.
        """
        request = decode_weight_request(message.question)
        match request:
            case WriteWeights() | StageWeights():
                data = encode_weight_request(self._placed(request, message.keys))
            case _:
                data = message.question
        return PlacedRequest(data, self._found(message.keys), writes=message.written)

    def job(self, message: StartRank) -> ServeJob:
        """A job with the places of its weights on this host. Raises OutOfMemory as `request`."""
        job = decode_sent(message.job, ServeJob, "the orchestrator")
        stage = None if job.stage is None else self._placed(job.stage, message.keys)
        return msgspec.structs.replace(job, stage=stage)

    def _placed(self, request: PlacedT, keys: Sequence[int]) -> PlacedT:
        places = zip(request.weights, self._found(keys), strict=True)
        weights = [msgspec.structs.replace(one, offset=region.offset) for one, region in places]
        return msgspec.structs.replace(request, weights=weights)

    def _found(self, keys: Sequence[int]) -> list[Region]:
        if any(key not in self._regions for key in keys):
            raise OutOfMemory(f"updated weights: {self._missing}")
        return [self._regions[key] for key in keys]
