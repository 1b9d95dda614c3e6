"""Model calls: the server, its models, their configurations and statistics."""

from __future__ import annotations

from ..catalog import ModelDescription
from ..faults import UnknownModel
from ..model_pages import configuration, metadata, statistics
from ..server_state import ServerState
from .calls import CallHandler, unary
from .protocol import inference
from .protocol.model_config import ModelConfig

EXTENSIONS = (
    "classification",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
_TensorMetadata = inference.ModelMetadataResponse.TensorMetadata


class ModelCalls:
    """Answers from the state of the server."""

    def __init__(self, state: ServerState, version: str, shared_memory: bool) -> None:
        """`version` of the server, and whether it offers shared memory."""
        self._state = state
        self._version = version
        self._extensions = (*EXTENSIONS, *(("system_shared_memory",) if shared_memory else ()))

    def handlers(self) -> dict[str, CallHandler]:
        """The handlers by the names of their methods."""
        return {
            "ServerLive": unary(inference.ServerLiveRequest, self._live),
            "ServerReady": unary(inference.ServerReadyRequest, self._ready),
            "ServerMetadata": unary(inference.ServerMetadataRequest, self._server),
            "ModelReady": unary(inference.ModelReadyRequest, self._model_ready),
            "ModelMetadata": unary(inference.ModelMetadataRequest, self._metadata),
            "ModelConfig": unary(inference.ModelConfigRequest, self._config),
            "ModelStatistics": unary(inference.ModelStatisticsRequest, self._statistics),
        }

    def _live(self, _: inference.ServerLiveRequest) -> inference.ServerLiveResponse:
        return inference.ServerLiveResponse(live=True)

    def _ready(self, _: inference.ServerReadyRequest) -> inference.ServerReadyResponse:
        return inference.ServerReadyResponse(ready=self._state.ready())

    def _server(self, _: inference.ServerMetadataRequest) -> inference.ServerMetadataResponse:
        return inference.ServerMetadataResponse(
            name="rankmesh", version=self._version, extensions=self._extensions
        )

    def _model_ready(self, asked: inference.ModelReadyRequest) -> inference.ModelReadyResponse:
        try:
            model = self._find(asked.name, asked.version)
        except UnknownModel:  # not an error in Triton either
            return inference.ModelReadyResponse(ready=False)
        return inference.ModelReadyResponse(ready=self._state.ready_as_asked(model))

    def _metadata(self, asked: inference.ModelMetadataRequest) -> inference.ModelMetadataResponse:
        told = metadata(self._find(asked.name, asked.version))
        inputs, outputs = (
            [_TensorMetadata(name=one.name, datatype=one.datatype, shape=one.shape) for one in side]
            for side in (told.inputs, told.outputs)
        )
        return inference.ModelMetadataResponse(
            name=told.name,
            versions=told.versions,
            platform=told.platform,
            inputs=inputs,
            outputs=outputs,
        )

    def _config(self, asked: inference.ModelConfigRequest) -> inference.ModelConfigResponse:
        model = self._find(asked.name, asked.version)
        if model.published is not None:
            config = ModelConfig.FromString(model.published.config)
        else:
            config = ModelConfig(**configuration(model))
        return inference.ModelConfigResponse(config=config)

    def _statistics(
        self, asked: inference.ModelStatisticsRequest
    ) -> inference.ModelStatisticsResponse:
        service = self._state.service()
        catalog = service.catalog
        if not asked.name:
            models = catalog.versions
        elif asked.version:
            models = [catalog.find(asked.name, asked.version)]
        else:
            models = catalog.versions_of(asked.name)
        return inference.ModelStatisticsResponse(
            model_stats=[
                inference.ModelStatistics(
                    **statistics(one, service.metrics(one), service.last_inference(one))
                )
                for one in models
            ]
        )

    def _find(self, name: str, version: str) -> ModelDescription:
        return self._state.service().catalog.find(name, version)
