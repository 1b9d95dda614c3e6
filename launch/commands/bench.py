"""`rankmesh bench`: measures a server or a model under load."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ..options.option_groups import with_groups
from .serve import Device, Ranks, Replicas, Slice, Threads

BenchTarget = Annotated[
    str,
    typer.Argument(
        metavar="URL|MODEL",
        show_default=False,
        help="A server, as http://localhost:8000 or https://HOST:PORT; or a model as `serve` takes "
        "it, which then runs in an orchestrator of this process.",
    ),
]


@dataclass(frozen=True)
class LoadGroup:
    """The options of the load."""

    clients: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            show_default="1,2,4,8",
            help="Closed loop: so many clients, each of which waits for its answer. One level "
            "each.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="R,R,...",
            help="Open loop: so many requests a second, which wait for no answer. One level each.",
        ),
    ] = None
    duration: Annotated[
        float, typer.Option(metavar="S", min=0.1, help="The seconds of measuring of each level.")
    ] = 5.0
    warm_up: Annotated[
        float,
        typer.Option(metavar="S", min=0, help="The seconds of load before, which do not count."),
    ] = 1.0
    timeout: Annotated[
        float, typer.Option(metavar="S", min=0.001, help="The deadline of each request.")
    ] = 60.0
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Chooses random inputs and moments of arrival.")
    ] = 0


@dataclass(frozen=True)
class StartedGroup:
    """The options for a model that is started."""

    ranks: Ranks = None
    replicas: Replicas = None
    device: Device = None
    threads: Threads = None
    slice: Slice = None


@dataclass(frozen=True)
class RequestGroup:
    """The options of requests and expected answers."""

    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model, where there are several."),
    ] = None
    model_version: Annotated[
        str, typer.Option(metavar="V", help="Its version; by default the current one.")
    ] = ""
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT:1,128", help="The shape of an input that is open. May be repeated."
        ),
    ] = None
    inputs: Annotated[
        str | None, typer.Option(metavar="FILE.npz", help="Send these inputs; else random ones.")
    ] = None
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.npz",
            help="Compare all answers with these outputs; else with the first answer.",
        ),
    ] = None


@dataclass(frozen=True)
class ServerGroup:
    """The options for a server."""

    grpc: Annotated[bool, typer.Option("--grpc", help="Send by gRPC; else by HTTP.")] = False
    tensors: Annotated[
        str, typer.Option(metavar="binary|json", help="The form of tensors in HTTP.")
    ] = "binary"
    token_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Has the token; else RANKMESH_TOKEN is it."),
    ] = None
    tls_ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The authority of the server's certificate (PEM)."),
    ] = None
    tls_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="The client's own certificate (PEM).")
    ] = None
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key (PEM).")] = None


@dataclass(frozen=True)
class ReportGroup:
    """The options of files."""

    svg: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="Draw throughput and latency.")
    ] = None
    json: Annotated[str | None, typer.Option(metavar="FILE.json", help="Keep all figures.")] = None
    compare: Annotated[
        str | None,
        typer.Option(metavar="FILE.json", help="Print ratios to the figures of an earlier bench."),
    ] = None


@with_groups
def bench(
    target: BenchTarget,
    load: LoadGroup = LoadGroup(),
    served: StartedGroup = StartedGroup(),
    request: RequestGroup = RequestGroup(),
    server: ServerGroup = ServerGroup(),
    report: ReportGroup = ReportGroup(),
) -> None:
    """Measure requests a second and latencies of a server, or of a model, under load.

    Needs the extra `serve` for servers.
    """
    from ..bench.bench import run_bench
    from ..bench.levels import levels_of
    from ..bench.measuring import LoadPlan
    from ..bench.options import BenchOptions, ReportFiles, RequestOptions, ServerOptions
    from ..bench.targets.server_address import TlsOptions
    from ..serving.served_models import ServedModels

    plan = LoadPlan(
        levels_of(load.clients, load.rate), load.duration, load.warm_up, load.timeout, load.seed
    )
    tls = TlsOptions(server.tls_ca, server.tls_certificate, server.tls_key)
    asked = request.model, request.model_version, tuple(request.shape or ())
    options = BenchOptions(
        target,
        ServedModels(target, **asdict(served), name=None),
        ServerOptions(server.grpc, server.tensors, server.token_file, tls),
        RequestOptions(*asked, request.inputs, request.expect),
        plan,
        ReportFiles(report.svg, report.json, report.compare),
    )
    raise typer.Exit(run_bench(options))
