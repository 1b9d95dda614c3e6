"""Remote callers: send the requests of a program's threads to models of another process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from ...comm.errors import UsageError
from ..request_calls import ModelCaller
from ..requests.inputs import Buffers
from ..requests.request import Result
from ..requests.request_inputs import Inputs
from ..scheduling.request_client import GivenInputs
from .link import EndpointLink, Told
from .remote_model import RemoteModel, spoil
from .remote_models import RemoteModels

Refuses = Callable[[str], None]


class RemoteFuture(Future[Result]):
    """Future of a request to a remote model; it can be cancelled before the run and during it."""

    def __init__(self, link: EndpointLink, inputs: Inputs) -> None:
        super().__init__()
        self.number = 0
        self._link = link
        self._inputs: Inputs | None = inputs

    def cancel(self) -> bool:
        """See Future.cancel."""
        if not super().cancel():
            return False
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            spoil(inputs)
            self._link.cancel(self.number)
        return True

    def told(self, model: RemoteModel, every_rank: bool, told: Told) -> None:
        """Take what the request was told."""
        inputs, self._inputs = self._inputs, None
        if inputs is None or not self.set_running_or_notify_cancel():
            return
        try:
            result = model.result(told, inputs, every_rank)
        except Exception as error:  # of any class: the request has to end
            self.set_exception(error)
        else:
            self.set_result(result)


class RemoteCaller:
    """Sends the requests of a program's threads to one model. See ModelCaller."""

    def __init__(
        self, model: RemoteModel, link: EndpointLink, named: bool, require_another: Refuses
    ) -> None:
        """`named`: whether requests have named the version; `require_another` raises UsageError in
        the thread that takes answers.
        """
        self._model = model
        self._link = link
        self._named = named
        self._require_another = require_another

    @property
    def timeout(self) -> float | None:
        """See ModelCaller."""
        return self._model.card.timeout

    def call(
        self, given: GivenInputs, timeout: float | None, priority: int, every_rank: bool
    ) -> Result:
        """See ModelCaller."""
        self._require_another("predict")
        future = self.submit(given, timeout, priority, every_rank)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(
        self, given: GivenInputs, timeout: float | None, priority: int, every_rank: bool
    ) -> Future[Result]:
        """See ModelCaller."""
        model = self._model
        inputs = model.written(given)
        future = RemoteFuture(self._link, inputs)
        told = partial(future.told, model, every_rank)
        future.number = model.send(inputs, timeout, priority, every_rank, self._named, told)
        return future

    def buffers(self, shapes: Mapping[str, Sequence[int]]) -> Buffers:
        """See ModelCaller."""
        specs = self._model.specs
        return Buffers(specs, specs.room(shapes))


class RemoteCallers:
    """The callers of all models, for the process that has connected."""

    def __init__(self, models: RemoteModels, link: EndpointLink, require_another: Refuses) -> None:
        self._models = models
        self._link = link
        self._require_another = require_another
        self._process = os.getpid()

    def models(self) -> RemoteModels:
        """The models; UsageError in a forked child."""
        if os.getpid() != self._process:
            raise UsageError(
                f"this client belongs to process {self._process}, from which this one was forked: "
                "connect here as well."
            )
        return self._models

    def replaced(self, caller: ModelCaller, model: str | None) -> bool:
        """Never: the orchestrator itself gives such requests to the version that is current."""
        return False

    def client(self, model: str | None, version: int | None = None) -> RemoteCaller:
        """See ModelCallers."""
        found = self.models().find(model, version)
        return RemoteCaller(found, self._link, version is not None, self._require_another)
