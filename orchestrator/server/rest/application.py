"""REST application: answers each request of the Open Inference Protocol by its path."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..catalog import ModelDescription
from ..faults import UnsupportedCall
from ..http.exchange import (
    BadRequest,
    Header,
    HttpRequest,
    HttpResponse,
    error_response,
    json_response,
)
from ..model_pages import configuration, metadata, statistics, statistics_page
from ..page.page import page
from ..server_state import ServerState
from ..shared_memory.client_regions import ClientRegions
from ..shared_memory.forwarded_regions import InRegion
from .body_limits import small_body
from .document_reader import DocumentReader
from .fault_response import fault_response
from .infer_request import decoded
from .inference_route import InferenceRoute
from .management_route import manage
from .messages import IndexEntry, IndexWish, LiveMessage, ReadyMessage, ServerMessage
from .open_api import open_api_page
from .repeated_inference import RepeatedInference
from .shared_memory_route import shared_memory

_LOG = logging.getLogger("rankmesh.server")
_EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
SHARED_MEMORY = ("system_shared_memory",)
_READING = ("GET", "HEAD")
_UNKEPT: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
_NO_TRACE = {
    "trace_level": ["OFF"],
    "trace_rate": "0",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}
_OFF = "is not offered by this server."


class RestApplication:
    """The REST form of the protocol, over whatever carries its exchanges."""

    def __init__(
        self,
        state: ServerState,
        version: str,
        body_limit: int,
        regions: ClientRegions | None = None,
        strict_json: bool = False,
    ) -> None:
        """`version` of the server; bodies may have `body_limit` bytes. Without `regions` there is
        no shared memory of clients. For `strict_json` see ServerSettings.
        """
        self._state = state
        self._version = version
        self._regions = regions or ClientRegions()
        documents = DocumentReader(self._regions, strict_json)
        self._inference = InferenceRoute(documents, body_limit, state.threads)
        self.repeated = RepeatedInference(state, documents)
        """Requests that came before in all but their tensors."""

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """The response to a request, for errors as well; only a cancellation is raised.

        InRegion is raised where another process has the regions.
        """
        try:
            return await self._routed(request)
        except BadRequest as error:
            return error_response(error.status, str(error), error.headers)
        except InRegion:
            raise
        except Exception as error:  # of any class: the client gets its codes, and the log the rest
            return fault_response(error, f"{request.method} {'/'.join(request.path)}")

    async def _routed(self, request: HttpRequest) -> HttpResponse:
        match request.path:
            case ["v2"] | ["v2", ""]:
                self._require(request, *_READING)
                extensions = (*_EXTENSIONS, *(SHARED_MEMORY if self._regions.offered else ()))
                return json_response(ServerMessage("rankmesh", self._version, extensions))
            case ["v2", "health", "live"]:
                self._require(request, *_READING)
                return json_response(LiveMessage(True))
            case ["v2", "health", "ready"]:
                self._require(request, *_READING)
                return _readiness(self._state.ready())
            case ["v2", "models", "stats"]:
                self._require(request, *_READING)
                return self._statistics(self._state.service().catalog.versions)
            case ["v2", "models", name, "versions", version, *action]:
                return await self._model(request, name, version, action)
            case ["v2", "models", name, *action]:
                return await self._model(request, name, "", action)
            case [] | [""]:
                self._require(request, *_READING)
                return page()
            case ["overview"]:
                self._require(request, *_READING)
                return json_response(self._state.overview(self._version), headers=_UNKEPT)
            case ["metrics"]:
                self._require(request, *_READING)
                return self._metrics()
            case ["v2", *rest]:
                return await self._server(request, rest)
        raise _no_page()

    async def _model(
        self, request: HttpRequest, name: str, version: str, action: Sequence[str]
    ) -> HttpResponse:
        """The pages below the path of a model, and its inference."""
        service = self._state.service()
        model = service.catalog.find(name, version)
        if action == ["infer"]:
            self._require(request, "POST")
            return await self._inference.answer(service, model, request)
        if action == ["trace", "setting"]:
            return self._trace(request)
        self._require(request, *_READING)
        match action:
            case []:
                return json_response(metadata(model))
            case ["ready"]:
                return _readiness(self._state.ready_as_asked(model), model.name)
            case ["config"]:
                return json_response(configuration(model))
            case ["stats"]:
                return self._statistics([model] if version else service.catalog.versions_of(name))
        raise _no_page()

    async def _server(self, request: HttpRequest, rest: Sequence[str]) -> HttpResponse:
        """The pages of the whole server."""
        match rest:
            case ["repository", "index"]:
                self._require(request, "POST")
                return self._index(await small_body(request.body))
            case ["repository", "models", name, *action]:
                self._require(request, "POST")
                return await manage(self._state.manager(), name, action, request.body)
            case ["trace", "setting"]:
                return self._trace(request)
            case ["openapi.json"]:
                self._require(request, *_READING)
                return open_api_page(self._version)
            case ["logging"]:
                return self._logging(request)
            case ["systemsharedmemory" | "cudasharedmemory" as kind, *place]:
                if place[-1:] == ["status"]:
                    self._require(request, *_READING)
                else:
                    self._require(request, "POST")
                return await shared_memory(self._regions, kind, place, request.body)
        raise _no_page()

    def _statistics(self, models: Sequence[ModelDescription]) -> HttpResponse:
        service = self._state.service()
        found = [
            statistics(one, service.metrics(one), service.last_inference(one)) for one in models
        ]
        return json_response(statistics_page(found))

    def _metrics(self) -> HttpResponse:
        try:
            from .metrics_page import metrics_page
        except ImportError:
            raise UnsupportedCall("metrics need the extra `serve`.") from None
        return metrics_page(self._state.observation())

    def _index(self, body: bytes) -> HttpResponse:
        wish = decoded(body, IndexWish) if body.strip() else IndexWish()
        return json_response(
            [
                IndexEntry(one.name, one.version, one.state, one.reason)
                for one in self._state.index(wish.ready)
            ]
        )

    def _trace(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST":
            raise UnsupportedCall("tracing is not offered by this server.")
        self._require(request, *_READING)
        return json_response(_NO_TRACE)

    def _logging(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST":
            raise UnsupportedCall("log settings are those of the command: none is changed here.")
        self._require(request, *_READING)
        return json_response(_log_settings())

    def _require(self, request: HttpRequest, *methods: str) -> None:
        if request.method not in methods:
            text = f"got {request.method}, expected {' or '.join(methods)}."
            raise BadRequest(405, text, ((b"allow", ", ".join(methods).encode()),))


def _readiness(ready: bool, model: str = "") -> HttpResponse:
    return json_response(ReadyMessage(ready, model), 200 if ready else 503)


def _no_page() -> BadRequest:
    return BadRequest(404, "there is no such path: /v2/openapi.json lists all.")


def _log_settings() -> dict[str, object]:
    log = logging.getLogger("rankmesh")
    return {
        "log_file": "",
        "log_info": log.isEnabledFor(logging.INFO),
        "log_warning": log.isEnabledFor(logging.WARNING),
        "log_error": log.isEnabledFor(logging.ERROR),
        "log_verbose_level": int(log.isEnabledFor(logging.DEBUG)),
        "log_format": "default",
    }
