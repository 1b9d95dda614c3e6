"""gRPC server: listens, answers, and drains, in the asyncio loop of the whole server."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ....comm.errors import UsageError
from ..access.gate import Gate
from ..forwarding.forwarder import Forwarder
from ..inflation import decoded_bytes
from ..observation.request_observer import RequestObserver
from ..server_state import ServerState
from ..shared_memory.client_regions import ClientRegions
from .calls import CallHandler
from .forwarded_calls import forwarded
from .guarded_calls import guarded
from .health_calls import HealthCalls
from .inference_calls import InferenceCalls
from .inflated_calls import inflating
from .model_calls import ModelCalls
from .observed_calls import observed
from .reflection_calls import ReflectionCalls
from .repository_calls import RepositoryCalls
from .setting_calls import setting_handlers
from .shared_memory_calls import SharedMemoryCalls
from .transport.library import grpc
from .transport.service_handlers import ServiceHandlers
from .transport.settings import GrpcSettings

_LOG = logging.getLogger("rankmesh.server")
_INFERENCE = "inference.GRPCInferenceService"
_HEALTH = "grpc.health.v1.Health"
_REFLECTION = "grpc.reflection.v1.ServerReflection"
_OLD_REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


class GrpcServer:
    """The Open Inference Protocol over gRPC, with health checks and reflection."""

    def __init__(
        self,
        state: ServerState,
        version: str,
        settings: GrpcSettings,
        regions: ClientRegions,
        credentials: grpc.ServerCredentials | None = None,
        gate: Gate | None = None,
        observer: RequestObserver | None = None,
        forwarder: Forwarder | None = None,
    ) -> None:
        """`version` of the server, `credentials` of TLS. In the loop that serves.

        With a `forwarder` only requests to models are answered here.
        """
        self._threads = state.threads
        self._gate = gate
        self._observer = observer
        self._settings = settings
        self._credentials = credentials
        self._inference = InferenceCalls(state, regions, forwarder)
        self._health = HealthCalls(state, (_INFERENCE,))
        reflection = ReflectionCalls((_INFERENCE, _HEALTH, _REFLECTION)).handlers()
        others = other_handlers(state, version, regions)
        if forwarder is not None:
            others = forwarded(others, forwarder)
        inference = {**others, **self._inference.handlers()}
        self._server = grpc.aio.server(
            options=settings.options(), maximum_concurrent_rpcs=settings.calls
        )
        self._add(_INFERENCE, inference)
        self._add(_HEALTH, self._health.handlers())
        self._add(_REFLECTION, reflection)
        self._add(_OLD_REFLECTION, reflection)

    @property
    def answers(self) -> Mapping[str, int]:
        """How many inference requests were answered, by status."""
        return self._inference.answers

    @property
    def streams(self) -> int:
        """How many streams of inference requests are open."""
        return self._inference.streams

    async def start(self) -> int:
        """Take calls from here on, and give the port. UsageError where it is taken."""
        host, port = self._settings.host, self._settings.port
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._credentials is None:
                bound = int(self._server.add_insecure_port(address))
            else:
                bound = int(self._server.add_secure_port(address, self._credentials))
        except RuntimeError:  # its text tells no reason
            raise UsageError(
                f"port {port} of {host} cannot be had for gRPC: it is taken, or the address is not "
                "this host's. Choose another with --grpc-port."
            ) from None
        await self._server.start()
        _LOG.info("listening on %s port %d for gRPC", host, bound)
        return bound

    async def drain(self, timeout: float) -> None:
        """Take no more calls, and end those under way, which have so many seconds."""
        self._inference.end_streams()
        self._health.end()
        await self._server.stop(timeout)

    async def close(self) -> None:
        """End at once."""
        await self._server.stop(None)

    def _add(self, service: str, handlers: dict[str, CallHandler]) -> None:
        plain = inflating(self._threads, decoded_bytes(self._settings.message_bytes), handlers)
        found = observed(self._observer, service, guarded(self._gate, plain))
        self._server.add_generic_rpc_handlers((ServiceHandlers(service, found),))


def unary_handlers(
    state: ServerState, version: str, regions: ClientRegions
) -> dict[str, CallHandler]:
    """The handlers of all calls with one message each way, for other processes of the server."""
    inference = InferenceCalls(state, regions).handlers()
    return {
        **other_handlers(state, version, regions),
        "ModelInfer": inference["ModelInfer"],
    }


def other_handlers(
    state: ServerState, version: str, regions: ClientRegions
) -> dict[str, CallHandler]:
    """The handlers of all calls but inference, by the names of their methods."""
    return {
        **ModelCalls(state, version, regions.offered).handlers(),
        **setting_handlers(state),
        **SharedMemoryCalls(regions).handlers(),
        **RepositoryCalls(state).handlers(),
    }
