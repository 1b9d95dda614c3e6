"""Model source: gives a server its models, which may be those of another process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...comm.serving.tensor_spec import TensorSpec
from ..config.class_labels import ClassLabels
from ..config.published_model import PublishedModel
from ..requests.inputs import Buffers, PackedInputs
from ..requests.loaded_versions import LoadedVersions
from ..requests.request import Result
from ..requests.request_inputs import Inputs
from ..scheduling.loop_caller import LoopRequest
from ..scheduling.request_client import GivenInputs
from .observation.record import RequestTimes


class AlikeRequests(Protocol):
    """Sends requests to one model that are alike in all but their inputs. See LoopClient."""

    def packed(
        self, shapes: Mapping[str, tuple[int, ...]], starts: Mapping[str, int]
    ) -> PackedInputs:
        """The inputs of these shapes, by name, each from its start in a message on."""

    def begin(
        self, request: LoopRequest, inputs: Inputs, timeout: float | None, priority: int
    ) -> None:
        """Begin a request."""


class RequestSender(Protocol):
    """Sends requests from one asyncio loop. See LoopCaller."""

    def client(self, model: str, version: int | None) -> AlikeRequests:
        """The sender of requests that are alike. Raises UsageError."""

    async def call(
        self,
        model: str,
        given: GivenInputs,
        timeout: float | None,
        priority: int,
        version: int | None = None,
        ended: Callable[[RequestTimes], None] | None = None,
    ) -> Result:
        """The result of a request."""

    async def buffers(
        self, model: str, version: int | None, shapes: Mapping[str, Sequence[int]]
    ) -> Buffers:
        """Memory that ranks read, for the inputs of one request."""

    def close(self) -> None:
        """Take no more answers."""


class ModelSource(Protocol):
    """The models of an orchestrator, in this process or in another one."""

    def versions(self) -> Mapping[str, LoadedVersions]:
        """The versions that take requests, by model; another mapping after each change."""

    def inputs(self, model: str, version: int) -> tuple[TensorSpec, ...]:
        """The inputs of a model. Raises NotLoaded."""

    def outputs(self, model: str, version: int) -> tuple[TensorSpec, ...]:
        """The outputs of a model. Raises NotLoaded."""

    def class_labels(self, model: str, version: int) -> ClassLabels:
        """The labels of classes by output. Raises NotLoaded."""

    def published(self, model: str, version: int) -> PublishedModel | None:
        """The form of a model for clients; None: as its file has it. Raises NotLoaded."""

    def loop_caller(self, loop: asyncio.AbstractEventLoop) -> RequestSender:
        """A sender for this loop."""
