"""Serving from the command line: starts the models of a command, and answers until TERM."""

from __future__ import annotations

from dataclasses import dataclass

from ...comm.text import counted
from ...orchestrator.config.settings import ModelSettings
from ...orchestrator.orchestrator import Orchestrator
from ...orchestrator.server.lifecycle.serve import run_server
from ...orchestrator.server.lifecycle.settings import ServerSettings
from ..options.notice import notice


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The models of one command: a model file or pattern with its ranks, or a YAML file."""

    model: str
    ranks: int | None
    replicas: int | None
    device: str | None
    threads: int | None
    slice: str | None
    name: str | None
    """The name of the orchestrator for other programs."""

    def start(self) -> Orchestrator:
        """Start all ranks, and wait until they are ready."""
        orchestrator = Orchestrator(
            None if self.several else self.model,
            self.ranks,
            replicas=self.replicas,
            device=self.device,
            threads=self.threads,
            slice=self.slice,
            config=self.model if self.several else None,
        )
        if self.name is not None:
            orchestrator.listen(self.name)
        return orchestrator

    @property
    def several(self) -> bool:
        """Whether a YAML file has the models."""
        return self.model.endswith((".yaml", ".yml"))

    def configured(self) -> tuple[ModelSettings, ...]:
        """The models as the YAML file has them now; UsageError names what is wrong with it."""
        from ...orchestrator.config.settings_file import load_settings  # pydantic takes its time

        return load_settings(self.model).models


def serve_models(models: ServedModels, settings: ServerSettings) -> None:
    """Serve until TERM or INT; then all requests under way are answered, and all ranks end."""
    started: list[Orchestrator] = []

    def start() -> Orchestrator:
        started.append(models.start())
        ranks = counted(len(started[0].status().ranks), "rank")
        notice(f"ready: {', '.join(started[0].models())} on {ranks}")
        return started[0]

    def listening(port: int, grpc_port: int | None) -> None:
        grpc = "" if grpc_port is None else f", for gRPC on {settings.host}:{grpc_port}"
        scheme = "http" if settings.tls is None else "https"
        notice(f"listening on {scheme}://{settings.host}:{port}{grpc}")

    try:
        run_server(settings, start, listening, models.configured if models.several else None)
    finally:
        for orchestrator in started:
            orchestrator.close()
