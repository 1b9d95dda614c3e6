"""Tracing: finds out whether this process has OpenTelemetry, and is to tell it of requests."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Protocol

from .record import RequestRecord, RequestTrace


class Tracing(Protocol):
    """The maker of traces, as RequestTracer is one."""

    def begin(self, record: RequestRecord, headers: Mapping[str, str]) -> RequestTrace:
        """The trace of a request, which goes on the one that its headers name."""


def configured_tracer(version: str, scheme: str) -> Tracing | None:
    """A tracer where a provider of tracers is set in this process, else None.

    `version` is the server's, `scheme` that of its URLs. Without a provider nothing is imported:
    what sets one has imported OpenTelemetry's API before.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    if isinstance(api.get_tracer_provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return None
    from .request_tracer import RequestTracer

    return RequestTracer(api.get_tracer("rankmesh", version), scheme)
