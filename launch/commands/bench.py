"""`rankmesh bench`: measures a server or a model under load."""

from __future__ import annotations

from dataclasses import dataclass
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
Clients = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        show_default="1,2,4,8",
        help="Closed loop: so many clients, each of which waits for its answer. One level each.",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="R,R,...",
        help="Open loop: so many requests a second, which wait for no answer. One level each.",
    ),
]
Duration = Annotated[
    float, typer.Option(metavar="S", min=0.1, help="The seconds of measuring of each level.")
]
WarmUp = Annotated[
    float, typer.Option(metavar="S", min=0, help="The seconds of load before, which do not count.")
]
Timeout = Annotated[
    float, typer.Option(metavar="S", min=0.001, help="The deadline of each request.")
]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, help="Chooses random inputs and moments of arrival.")
]


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
    clients: Clients = None,
    rate: Rate = None,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    timeout: Timeout = 60.0,
    seed: Seed = 0,
    ranks: Ranks = None,
    replicas: Replicas = None,
    device: Device = None,
    threads: Threads = None,
    slice: Slice = None,
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
    from ..bench.server_address import TlsOptions
    from ..serving.serve import ServedModels

    tls = TlsOptions(server.tls_ca, server.tls_certificate, server.tls_key)
    options = BenchOptions(
        target,
        ServedModels(target, ranks, replicas, device, threads, slice),
        ServerOptions(server.grpc, server.tensors, server.token_file, tls),
        RequestOptions(
            request.model,
            request.model_version,
            tuple(request.shape or ()),
            request.inputs,
            request.expect,
        ),
        LoadPlan(levels_of(clients, rate), duration, warm_up, timeout, seed),
        ReportFiles(report.svg, report.json, report.compare),
    )
    raise typer.Exit(run_bench(options))
