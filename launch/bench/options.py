"""Options of `rankmesh bench`: say which model is asked, how, and which reports are written."""

from __future__ import annotations

from dataclasses import dataclass

from ..serving.served_models import ServedModels
from .measuring import LoadPlan
from .targets.server_address import TlsOptions


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Which model is asked, with which inputs; None: not given."""

    model: str | None
    version: str
    shapes: tuple[str, ...]
    inputs: str | None
    expect: str | None


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server is spoken to: `tensors` of HTTP are `binary` or `json`."""

    grpc: bool
    tensors: str
    token_file: str | None
    tls: TlsOptions


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The files of reports; None: not given."""

    svg: str | None
    json: str | None
    compare: str | None


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """All options: `target` is the URL of a server, else `served` are the models to start."""

    target: str
    served: ServedModels
    server: ServerOptions
    request: RequestOptions
    plan: LoadPlan
    files: ReportFiles
