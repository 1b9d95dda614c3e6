"""Processor time of a server that is observed: an echo of 4 KB in binary by REST or gRPC.

    python bench/serving_observed.py [--protocol rest|grpc] [--rounds 9] [--requests 6000]

The servers are one without observation, the same again as control, one with an access log in a
file, and one with OpenTelemetry's SDK whose sampler takes no trace. See echo_servers.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

_FOLDER = Path(__file__).parent
_GENERATORS = {"rest": _FOLDER / "serving_http.py", "grpc": _FOLDER / "serving_grpc.py"}
_TRACED = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from rankmesh.launch.cli import main
trace.set_tracer_provider(TracerProvider(sampler=ALWAYS_OFF))
sys.argv[0] = "rankmesh"
main()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--protocol", choices=_GENERATORS, default="rest")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    from echo_servers import MODEL, Load, compare

    place = ("--port", "0", *(("--grpc-port", "0") if given.protocol == "grpc" else ()))
    plain = (sys.executable, "-P", "-m", "rankmesh", "serve", MODEL, *place)
    traced = (sys.executable, "-P", "-c", _TRACED, *plain[4:])
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "access.log")
        servers = {
            "unobserved": plain,
            "unobserved (control)": plain,
            "access log": (*plain, "--access-log", "json", "--access-log-file", log),
            "no trace sampled": traced,
        }
        load = Load(given.requests, given.clients)
        compare(servers, str(_GENERATORS[given.protocol]), given.rounds, load)


if __name__ == "__main__":
    main()
