"""Remote loop caller: requests of an asyncio loop to models of another process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..endpoint.messages import Answered
from ..requests.inputs import Buffers, PackedInputs
from ..requests.request import Request, Result
from ..requests.request_inputs import Inputs
from ..scheduling.loop_caller import MODELS_OWN, AwaitedRequest, LoopRequest
from ..scheduling.request_client import GivenInputs
from .granted_memory import GrantedMemory
from .link import EndpointLink, Told
from .remote_model import RemoteModel
from .remote_models import RemoteModels


class RemoteLoopClient:
    """Requests of one loop to one model of another process. See LoopClient."""

    def __init__(self, caller: RemoteLoopCaller, model: RemoteModel) -> None:
        self._caller, self._model = caller, model

    def packed(
        self, shapes: Mapping[str, tuple[int, ...]], starts: Mapping[str, int]
    ) -> PackedInputs:
        """See InputSpecs.packed."""
        return self._model.specs.packed(shapes, starts)

    def begin(
        self, request: LoopRequest, inputs: Inputs, timeout: float | None, priority: int
    ) -> None:
        """See RemoteLoopCaller.begin."""
        self._caller.begin(request, self._model, inputs, timeout, priority)


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
        ended: Callable[[Request], None] | None = None,
    ) -> Result:
        """See LoopCaller."""
        found = self._models.find(model, version)
        request = AwaitedRequest(self._loop)
        inputs = await self._written(found, given)
        request.ended = ended
        self.begin(request, found, inputs, timeout, priority, version is not None)
        await request.wait()
        return request.result()

    def begin(
        self,
        request: LoopRequest,
        model: RemoteModel,
        inputs: Inputs,
        timeout: float | None,
        priority: int,
        named: bool = True,
    ) -> None:
        """Begin a request to a version of a model, which it may have `named`. It is told after this
        has returned. Raises Closed.
        """
        request.client, request.caller = model, self
        request.inputs, request.submitted = inputs, time.monotonic()
        seconds = model.card.timeout if timeout == MODELS_OWN else timeout
        told_to = partial(_take, request, model, inputs)
        request.id = model.send(inputs, seconds, priority, False, named, told_to)

    def note(self, request: LoopRequest) -> None:
        """See EndedRequests: the loop itself has taken the answer."""
        request.tell()

    def client(self, model: str, version: int | None) -> RemoteLoopClient:
        """The client of a model, for requests that are alike. Raises NotLoaded."""
        return RemoteLoopClient(self, self._models.find(model, version))

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


def _take(request: LoopRequest, model: RemoteModel, inputs: Inputs, told: Told) -> None:
    """Take what a request was told."""
    if isinstance(told, Answered):
        request.begun, request.replica = told.begun, told.replica
        request.together, request.attempts, request.steps = told.together, told.attempts, told.steps
    try:
        result = model.result(told, inputs, every_rank=False)
    except Exception as error:  # of any class: the request has to end
        request.set_exception(error)
    else:
        request.set_result(result)
