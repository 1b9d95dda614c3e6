"""Client of an orchestrator: sends requests to one that another process of this user has."""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Callable, Mapping
from importlib.metadata import version as version_of
from types import TracebackType
from typing import TypeVar

from ...comm.errors import Closed, UsageError
from ...comm.host.secrecy import close_to_others
from ...comm.serving.tensor_spec import TensorSpec
from ...comm.transport.local_socket import connect as connect_local
from ...comm.transport.local_socket import credentials, runtime_dir
from ...comm.transport.message_stream import ChannelClosed
from ..endpoint.messages import MetricsReply, MetricsWish, ProgramMessage, StatusReply, StatusWish
from ..endpoint.names import path_of
from ..replica.rank_status import Status
from ..request_calls import RequestCalls
from ..requests.loaded_versions import LoadedVersions
from ..requests.metrics import ModelMetrics
from .granted_memory import GrantedMemory, RoomAnswer
from .link import EndpointLink, required
from .link_thread import LinkThread
from .remote_callers import RemoteCallers
from .remote_models import RemoteModels

PATIENCE = 10.0
"""Seconds in which an orchestrator answers the greeting."""

ReplyT = TypeVar("ReplyT", StatusReply, MetricsReply)


def connect(name: str) -> OrchestratorClient:
    """Connect to the orchestrator that listens under `name`: `Orchestrator.listen(name)`.

    Both are processes of the same user on one host. Raises UsageError where none listens.
    """
    close_to_others()  # before there is memory that requests are in
    sock = _reach(name)
    try:
        sock.settimeout(PATIENCE)
        pid, uid = credentials(sock)
        if uid != os.geteuid():
            raise UsageError(f"the name '{name}' belongs to user {uid}: it is not used.")
        return OrchestratorClient(sock, f"the orchestrator '{name}' (process {pid})")
    except (ChannelClosed, TimeoutError) as error:
        sock.close()
        raise Closed(f"the orchestrator '{name}' has not answered: {error}.") from error
    except BaseException:
        sock.close()
        raise


def _reach(name: str) -> socket.socket:
    try:
        return connect_local(path_of(name), PATIENCE)
    except (FileNotFoundError, ConnectionRefusedError):
        raise UsageError(
            f"no orchestrator listens under the name '{name}' in {runtime_dir()}: call its "
            f"listen('{name}') or start `rankmesh serve --name {name}`, as the same user and with "
            "the same XDG_RUNTIME_DIR."
        ) from None
    except TimeoutError as error:
        raise Closed(f"the orchestrator '{name}' has not answered: {error}.") from error


class OrchestratorClient(RequestCalls):
    """The requests of this process to an orchestrator of another one; a context manager.

    Tensors are in shared memory. Every method may be called from any thread. The models are the
    orchestrator's: it loads, updates and ends them.
    """

    def __init__(self, sock: socket.socket, owner: str) -> None:
        """See `connect`."""
        self._link = EndpointLink(sock, owner)
        arena = self._link.welcome(version_of("rankmesh"))
        self._thread = LinkThread(self._link)
        self._thread.memory = memory = GrantedMemory(arena, self._link, self._thread.wait)
        models = RemoteModels(self._link, memory)
        self._remote = self._callers = RemoteCallers(
            models, self._link, self._thread.require_another
        )
        self._end = weakref.finalize(self, _end, self._link, self._thread, os.getpid())
        self._thread.start()

    def __repr__(self) -> str:
        return f"<rankmesh.OrchestratorClient of {self._link.owner}>"

    def models(self) -> tuple[str, ...]:
        """The names of the models that are loaded now."""
        return tuple(self._remote.models().loaded())

    def versions(self) -> Mapping[str, LoadedVersions]:
        """The versions of all models, by name."""
        return self._remote.models().loaded()

    def inputs(
        self, model: str | None = None, version: int | None = None
    ) -> tuple[TensorSpec, ...]:
        """The inputs of a model, in its order: names, dtypes and shapes (-1: any size)."""
        return self._remote.models().find(model, version).card.inputs

    def outputs(
        self, model: str | None = None, version: int | None = None
    ) -> tuple[TensorSpec, ...]:
        """The outputs of a model, likewise."""
        return self._remote.models().find(model, version).card.outputs

    def status(self) -> Status:
        """One snapshot of all models and ranks."""
        return self._asked(StatusWish, StatusReply).status

    def metrics(self) -> dict[str, ModelMetrics]:
        """Metrics of all requests to the current versions, by model: other programs' too."""
        return self._asked(MetricsWish, MetricsReply).metrics

    def close(self) -> None:
        """End the connection; requests that are not answered yet fail with Closed."""
        self._end()

    def __enter__(self) -> OrchestratorClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _asked(self, wish: Callable[[int], ProgramMessage], kind: type[ReplyT]) -> ReplyT:
        """The reply to a question about all models."""
        self._remote.models()
        self._thread.require_another("this call")
        answer = RoomAnswer()
        self._link.ask(wish, answer.tell)
        answer.wait()
        return required(answer.told, kind)


def _end(link: EndpointLink, thread: LinkThread, process: int) -> None:
    """End a client that is closed or forgotten; in a forked child nothing."""
    if os.getpid() == process:
        link.close(f"the client of {link.owner} was closed.")
        if thread is not threading.current_thread():
            thread.join()
