"""Connected models: those of the parent's orchestrator, for the inference service of a child."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import version as version_of

from ....comm.serving.tensor_spec import TensorSpec
from ...config.class_labels import ClassLabels
from ...config.published_model import PublishedModel
from ...connected.granted_memory import GrantedMemory
from ...connected.link import EndpointLink
from ...connected.loop_caller import RemoteLoopCaller
from ...connected.loop_link import LoopLink
from ...connected.remote_models import RemoteModels
from ...requests.loaded_versions import LoadedVersions


class ConnectedModels:
    """The models as a service needs them. See ModelSource."""

    def __init__(self, link: EndpointLink, memory: GrantedMemory) -> None:
        self._link = link
        self._memory = memory
        self._models = RemoteModels(link, memory)

    @classmethod
    async def connected(cls, sock: socket.socket, ended: Callable[[], None]) -> ConnectedModels:
        """The models, once the orchestrator has started; `ended` is called at its end.

        Raises ChannelClosed.
        """
        link = EndpointLink(sock, "the orchestrator")
        arena = await asyncio.to_thread(link.welcome, version_of("rankmesh"))
        memory = GrantedMemory(arena, link, None)
        LoopLink(link, memory, asyncio.get_running_loop(), ended).start()
        return cls(link, memory)

    def versions(self) -> Mapping[str, LoadedVersions]:
        """See ModelSource."""
        return self._models.loaded()

    def inputs(self, model: str, version: int) -> tuple[TensorSpec, ...]:
        """See ModelSource."""
        return self._models.find(model, version).card.inputs

    def outputs(self, model: str, version: int) -> tuple[TensorSpec, ...]:
        """See ModelSource."""
        return self._models.find(model, version).card.outputs

    def class_labels(self, model: str, version: int) -> ClassLabels:
        """See ModelSource."""
        return self._models.find(model, version).card.labels

    def published(self, model: str, version: int) -> PublishedModel | None:
        """See ModelSource."""
        return self._models.find(model, version).card.published

    def loop_caller(self, loop: asyncio.AbstractEventLoop) -> RemoteLoopCaller:
        """See ModelSource."""
        return RemoteLoopCaller(self._models, self._memory, self._link, loop)
