"""Remote loop caller: requests of an asyncio loop to models of another process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ..endpoint.messages import Answered
from ..requests.inputs import Buffers
from ..requests.request import Result
from ..requests.request_inputs import Inputs
from ..requests.step_times import StepTimes
from ..scheduling.loop_caller import MODELS_OWN
from ..scheduling.request_client import GivenInputs
from .granted_memory import GrantedMemory
from .link import EndpointLink, Told
from .remote_model import RemoteModel, spoil
from .remote_models import RemoteModels


class AnsweredTimes(NamedTuple):
    """The times of a request: see RequestTimes."""

    submitted: float
    begun: float | None = None
    replica: int = -1
    together: int = 0
    attempts: int = 0
    steps: tuple[StepTimes, ...] = ()


class RemoteLoopCaller:
    """Sends requests from one loop, which drives the link as well. See LoopCaller."""

    def __init__(
        self,
        models: RemoteModels,
        memory: GrantedMemory,
        link: EndpointLink,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._models = models
        self._memory = memory
        self._link = link
        self._loop = loop

    async def call(
        self,
        model: str,
        given: GivenInputs,
        timeout: float | None,
        priority: int,
        version: int | None = None,
        ended: Callable[[AnsweredTimes], None] | None = None,
    ) -> Result:
        """See LoopCaller."""
        found = self._models.find(model, version)
        inputs = await self._written(found, given)
        seconds = found.card.timeout if timeout == MODELS_OWN else timeout
        waiter: asyncio.Future[Told] = self._loop.create_future()
        times = AnsweredTimes(time.monotonic())
        told_to = partial(_tell, waiter)
        number = found.send(inputs, seconds, priority, False, version is not None, told_to)
        try:
            told = await waiter
            if isinstance(told, Answered):
                ran = told.begun, told.replica, told.together, told.attempts, told.steps
                times = AnsweredTimes(times.submitted, *ran)
        except asyncio.CancelledError:
            spoil(inputs)
            self._link.cancel(number)
            raise
        finally:
            if ended is not None:
                ended(times)
        return found.result(told, inputs, every_rank=False)

    async def buffers(
        self, model: str, version: int | None, shapes: Mapping[str, Sequence[int]]
    ) -> Buffers:
        """See LoopCaller."""
        specs = self._models.find(model, version).specs
        return Buffers(specs, await self._room(specs.shapes(shapes), model, version))

    def close(self) -> None:
        """End the link; no request is under way."""
        self._link.close("the server ends.")

    async def _written(self, model: RemoteModel, given: GivenInputs) -> Inputs:
        """The inputs of a request, in memory that ranks read."""
        if isinstance(given, Buffers):
            return given.taken(model.specs)
        arrays = model.specs.ordered(given)
        inputs = await self._room([array.shape for array in arrays], model.name, model.card.version)
        inputs.fill(arrays)
        return inputs

    async def _room(
        self, shapes: Sequence[tuple[int, ...]], model: str, version: int | None
    ) -> Inputs:
        layout = self._models.find(model, version).specs.layout(shapes)
        region = self._memory.taken(layout.size)
        if region is None:
            waiter: asyncio.Future[Told] = self._loop.create_future()
            self._memory.request(layout.size, partial(self._granted, waiter))
            region = self._memory.granted(await waiter)
        return Inputs(region, layout)

    def _granted(self, waiter: asyncio.Future[Told], told: Told) -> None:
        if waiter.done():  # cancelled meanwhile
            self._memory.discard(told)
        else:
            waiter.set_result(told)


def _tell(waiter: asyncio.Future[Told], told: Told) -> None:
    if not waiter.done():
        waiter.set_result(told)
