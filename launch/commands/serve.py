"""`rankmesh serve`: answers requests to models by the Open Inference Protocol."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..options.option_groups import with_groups
from ..serving.launcher_options import LOCAL, LauncherOptions

if TYPE_CHECKING:
    from ...orchestrator.server.frontend.settings import ServerSettings
    from ..serving.served_models import ServedModels

SettingsT = TypeVar("SettingsT", "ServerSettings", "ServedModels")

ServedModel = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL|FILE.yaml",
        show_default=False,
        help="A .mindir or .onnx file; a pattern such as 'llama_rank{rank}.mindir'; or a YAML file "
        "with one or more models.",
    ),
]
ModelRepository = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR",
        help="Serve the ONNX models of a Triton repository in place of MODEL. May be repeated.",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(metavar="N", help="The ranks of a replica; by default one per model file."),
]
Replicas = Annotated[int | None, typer.Option(metavar="N", help="How many replicas answer.")]
Device = Annotated[str | None, typer.Option(metavar="cpu|gpu|ascend", help="The device.")]
Threads = Annotated[int | None, typer.Option(metavar="N", help="The threads of each rank.")]
Slice = Annotated[
    str | None,
    typer.Option(metavar="tensor=N,pipeline=K", help="Slice a whole MODEL first."),
]
Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Local programs of this user reach the models by rankmesh.connect."
    ),
]
Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Where to listen; 0.0.0.0 is reached from other hosts as well."
    ),
]
Port = Annotated[int, typer.Option(metavar="P", min=0, max=65535, help="0: any free port.")]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        "--grpc-port", metavar="P", min=0, max=65535, help="Answer gRPC as well; 0: any free port."
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--server-processes",
        metavar="N",
        min=1,
        max=256,
        help="How many processes answer clients; with 1 that of the orchestrator.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A name that the header Host may have, besides localhost, this host's, and "
        "addresses; * for every name. May be repeated.",
    ),
]
SharedMemoryPrefix = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PREFIX",
        help="Clients may register shared memory whose keys begin with PREFIX. May be repeated.",
    ),
]
StrictJson = Annotated[
    bool,
    typer.Option(
        "--strict-json",
        help="Answers in JSON have null for NaN and infinities, in place of literals.",
    ),
]
Management = Annotated[
    bool,
    typer.Option(
        "--management", help="Clients may load and unload models, and update their weights."
    ),
]
WeightsFolder = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Has the files of weights that clients name in updates."),
]
DrainDelay = Annotated[
    float,
    typer.Option(
        metavar="S", min=0, help="After TERM, answer for S seconds more, and tell `not ready`."
    ),
]
DrainTimeout = Annotated[
    float,
    typer.Option(metavar="S", min=0, help="After that, requests under way have S seconds."),
]


@dataclass(frozen=True)
class LimitOptions:
    """The options of HttpLimits."""

    header_bytes: Annotated[
        int, typer.Option("--max-header-bytes", metavar="N", min=256, help="Of one request.")
    ] = 32768
    headers: Annotated[
        int, typer.Option("--max-headers", metavar="N", min=1, help="How many a request may have.")
    ] = 100
    body_bytes: Annotated[
        int,
        typer.Option(
            "--max-body-bytes", metavar="N", min=0, help="Of one request, compressed or not."
        ),
    ] = 1073741824
    connections: Annotated[
        int,
        typer.Option("--max-connections", metavar="N", min=1, help="How many are open at a time."),
    ] = 1000
    header_seconds: Annotated[
        float,
        typer.Option("--header-timeout", metavar="S", help="For the headers of a request."),
    ] = 10.0
    body_seconds: Annotated[
        float,
        typer.Option(
            "--body-timeout", metavar="S", help="For a body, besides its bytes at --min-body-rate."
        ),
    ] = 20.0
    body_rate: Annotated[
        int,
        typer.Option(
            "--min-body-rate",
            metavar="N",
            min=1,
            help="Bytes a second that a client sends at least.",
        ),
    ] = 65536
    idle_seconds: Annotated[
        float, typer.Option("--idle-timeout", metavar="S", help="Between two requests.")
    ] = 75.0
    write_seconds: Annotated[
        float,
        typer.Option(
            "--write-timeout", metavar="S", help="While the client takes nothing of a response."
        ),
    ] = 30.0


@dataclass(frozen=True)
class SafetyOptions:
    """The options of access to the server."""

    tls_certificate: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Speak TLS, with this certificate chain (PEM)."),
    ] = None
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="The key of the certificate (PEM).")
    ] = None
    tls_client_ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Take only clients with a certificate of one of these authorities (PEM).",
        ),
    ] = None
    tokens: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Take only requests with a token of this file (YAML)."),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0.001, help="Requests a second of each token, or else address."
        ),
    ] = None
    burst: Annotated[
        float | None,
        typer.Option(metavar="N", min=1, help="How many of them may come at once."),
    ] = None
    log_form: Annotated[
        str,
        typer.Option("--access-log", metavar="text|json|off", help="A line for each request."),
    ] = "off"
    log_file: Annotated[
        str | None,
        typer.Option(
            "--access-log-file", metavar="FILE", help="Where it goes; else to standard error."
        ),
    ] = None


@with_groups
def serve(
    model: ServedModel = None,
    model_repository: ModelRepository = None,
    ranks: Ranks = None,
    replicas: Replicas = None,
    device: Device = None,
    threads: Threads = None,
    slice: Slice = None,
    name: Name = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    grpc_port: GrpcPort = None,
    processes: Processes = 1,
    allow_host: AllowHost = None,
    shared_memory_prefix: SharedMemoryPrefix = None,
    strict_json: StrictJson = False,
    management: Management = False,
    weights_folder: WeightsFolder = None,
    drain_delay: DrainDelay = 0.0,
    drain_timeout: DrainTimeout = 30.0,
    limits: LimitOptions = LimitOptions(),
    safety: SafetyOptions = SafetyOptions(),
    hosts: LauncherOptions = LOCAL,
) -> None:
    """Serve models by the Open Inference Protocol, until TERM.

    Needs the extra `serve`.
    """
    given = locals()
    from ..serving.serve import serve_models
    from ..serving.served_models import ServedModels

    given["model_repository"] = tuple(model_repository or ())
    given["launching"] = hosts.settings()
    serve_models(_chosen(ServedModels, given), _server_settings(given, limits, safety))


def _server_settings(
    given: dict[str, Any], limits: LimitOptions, safety: SafetyOptions
) -> ServerSettings:
    """The settings of the server among the options of the command."""
    from ...orchestrator.server.access.gate import AccessSettings
    from ...orchestrator.server.access.tls_files import TlsFiles
    from ...orchestrator.server.frontend.settings import ServerSettings
    from ...orchestrator.server.http.limits import HttpLimits
    from ...orchestrator.server.observation.access_log import AccessLogSettings

    tls = TlsFiles.named(safety.tls_certificate, safety.tls_key, safety.tls_client_ca)
    settings = {
        **given,
        "limits": HttpLimits(**asdict(limits)),
        "shared_memory_prefixes": tuple(given["shared_memory_prefix"] or ()),
        "allowed_hosts": tuple(given["allow_host"] or ()),
        "access": AccessSettings(safety.tokens, safety.rate, safety.burst),
        "access_log": AccessLogSettings.named(safety.log_form, safety.log_file),
        "tls": tls,
    }
    return _chosen(ServerSettings, settings)


def _chosen(kind: type[SettingsT], given: dict[str, Any]) -> SettingsT:
    """Settings of a kind, by the names of their fields."""
    return kind(**{field.name: given[field.name] for field in fields(kind)})
