"""Request calls: send requests to the models of an orchestrator, and wait for the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, Protocol, TypeVar, overload

from ..comm.errors import Closed, Draining
from .config.call_settings import check_call
from .config.setting_checks import check_seconds
from .requests.inputs import Buffers, are_by_name
from .requests.request import Outputs, Result
from .scheduling.request_client import GivenInputs

Results = Literal["once", "all"]
_MODELS = -1  # the model's own timeout
SentT = TypeVar("SentT")


class ModelCaller(Protocol):
    """Sends requests to one model."""

    @property
    def timeout(self) -> float | None:
        """Seconds of requests that do not say, None for no deadline."""

    def call(
        self, given: GivenInputs, timeout: float | None, priority: int, every_rank: bool
    ) -> Result:
        """Run a request and wait for its result."""

    def submit(
        self, given: GivenInputs, timeout: float | None, priority: int, every_rank: bool
    ) -> Future[Result]:
        """Queue a request."""

    def buffers(self, shapes: Mapping[str, Sequence[int]]) -> Buffers:
        """Memory for the inputs of requests."""


class ModelCallers(Protocol):
    """The callers of all models."""

    def client(self, model: str | None, version: int | None = None) -> ModelCaller:
        """The caller of a model, None for the only one, in a version, None for the current one."""

    def replaced(self, caller: ModelCaller, model: str | None) -> bool:
        """Whether requests to a model without a version have another caller by now."""


class RequestCalls:
    """The calls of an Orchestrator that send requests; from any thread."""

    _callers: ModelCallers

    @overload
    def predict(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["once"] = "once",
        model: str | None = None,
        version: int | None = None,
    ) -> Outputs: ...

    @overload
    def predict(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["all"],
        model: str | None = None,
        version: int | None = None,
    ) -> list[Outputs]: ...

    def predict(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Results = "once",
        model: str | None = None,
        version: int | None = None,
    ) -> Result:
        """Run one request and wait for its outputs: a dict from output name to array.

        `inputs` is one mapping from name to array, or one Buffers, or the arrays in the model's
        order. `timeout` is in seconds, None for no deadline (by default the model's); requests of
        higher `priority` go first. With `results="all"`: a list of one dict per rank, in rank
        order. `model` names one of several, `version` one of its versions. An array is valid as
        long as it is held.

        Raises InputError, QueueFull, DeadlineExceeded, RankDied and the other errors of rankmesh.
        """
        given = self._checked(inputs, timeout, priority, results)
        every = results == "all"

        def send(client: ModelCaller) -> Result:
            return client.call(given, _seconds(timeout, client), priority, every)

        return self._sent(send, model, version)

    @overload
    def submit(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["once"] = "once",
        model: str | None = None,
        version: int | None = None,
    ) -> Future[Outputs]: ...

    @overload
    def submit(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["all"],
        model: str | None = None,
        version: int | None = None,
    ) -> Future[list[Outputs]]: ...

    def submit(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Results = "once",
        model: str | None = None,
        version: int | None = None,
    ) -> Future[Any]:
        """As `predict`, without waiting; the future can be cancelled before and during the run."""
        return self._queued(inputs, timeout, priority, results, model, version)

    @overload
    async def predict_async(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["once"] = "once",
        model: str | None = None,
        version: int | None = None,
    ) -> Outputs: ...

    @overload
    async def predict_async(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Literal["all"],
        model: str | None = None,
        version: int | None = None,
    ) -> list[Outputs]: ...

    async def predict_async(
        self,
        *inputs: Any,
        timeout: float | None = _MODELS,
        priority: int = 0,
        results: Results = "once",
        model: str | None = None,
        version: int | None = None,
    ) -> Result:
        """As `predict`, for asyncio."""
        queued = self._queued(inputs, timeout, priority, results, model, version)
        return await asyncio.wrap_future(queued)

    def buffers(self, model: str | None = None, **shapes: Sequence[int]) -> Buffers:
        """Shared memory to write the inputs of requests in place; a context manager.

        `shapes` has by name those of inputs that the model leaves open.
        """
        return self._callers.client(model).buffers(shapes)

    def _queued(
        self,
        inputs: tuple[Any, ...],
        timeout: float | None,
        priority: int,
        results: str,
        model: str | None,
        version: int | None,
    ) -> Future[Result]:
        """The future of a request that is queued."""
        given = self._checked(inputs, timeout, priority, results)
        every = results == "all"

        def send(client: ModelCaller) -> Future[Result]:
            return client.submit(given, _seconds(timeout, client), priority, every)

        return self._sent(send, model, version)

    def _checked(
        self, inputs: tuple[Any, ...], timeout: float | None, priority: int, results: str
    ) -> GivenInputs:
        """The inputs of a request as one mapping or sequence."""
        check_call(results, priority)
        if timeout is not None and timeout != _MODELS:
            check_seconds("timeout", timeout, or_zero=True)
        return inputs[0] if len(inputs) == 1 and are_by_name(inputs[0]) else inputs

    def _sent(
        self, send: Callable[[ModelCaller], SentT], model: str | None, version: int | None
    ) -> SentT:
        """Send a request to a model; again where another version has taken its place meanwhile."""
        while True:
            client = self._callers.client(model, version)
            try:
                return send(client)
            except (Draining, Closed):
                if version is not None or not self._callers.replaced(client, model):
                    raise


def _seconds(timeout: float | None, client: ModelCaller) -> float | None:
    return client.timeout if timeout == _MODELS else timeout
