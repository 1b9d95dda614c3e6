"""Program of tests: the command `rankmesh` in a process that OpenTelemetry's SDK traces.

The first argument is a file, to which each span goes as one line of JSON.
"""

from __future__ import annotations

import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from rankmesh.launch.cli import main

if __name__ == "__main__":
    spans = open(sys.argv.pop(1), "w", buffering=1)
    exporter = ConsoleSpanExporter(
        out=spans, formatter=lambda span: span.to_json(indent=None).replace("\n", "") + "\n"
    )
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    sys.exit(main())
