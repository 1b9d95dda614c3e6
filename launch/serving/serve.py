"""Serving from the command line: starts the models of a command, and answers until TERM."""

from __future__ import annotations

from ...comm.text import counted
from ...orchestrator.orchestrator import Orchestrator
from ...orchestrator.server.frontend.settings import ServerSettings
from ...orchestrator.server.lifecycle.serve import run_server
from ..options.notice import notice
from .served_models import ServedModels


def serve_models(models: ServedModels, settings: ServerSettings) -> None:
    """Serve until TERM or INT; then all requests under way are answered, and all ranks end."""
    started: list[Orchestrator] = []
    configuration = models.configuration()

    def start() -> Orchestrator:
        started.append(models.start(configuration))
        ranks = counted(len(started[0].status().ranks), "rank")
        names = ", ".join(started[0].models()) or "no models"
        notice(f"ready: {names} on {ranks}")
        return started[0]

    def listening(port: int, grpc_port: int | None) -> None:
        grpc = "" if grpc_port is None else f", for gRPC on {settings.host}:{grpc_port}"
        scheme = "http" if settings.tls is None else "https"
        notice(f"listening on {scheme}://{settings.host}:{port}{grpc}")

    try:
        run_server(settings, start, listening, configuration)
    finally:
        for orchestrator in started:
            orchestrator.close()
