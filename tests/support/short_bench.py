"""Short benches: `rankmesh bench` in this process, with levels of a third of a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rankmesh.launch.bench.bench import run_bench
from rankmesh.launch.bench.levels import levels_of
from rankmesh.launch.bench.measuring import LoadPlan
from rankmesh.launch.bench.options import (
    BenchOptions,
    ReportFiles,
    RequestOptions,
    ServerOptions,
)
from rankmesh.launch.bench.targets.server_address import TlsOptions
from rankmesh.launch.serving.serve import ServedModels

SHAPE = "x:3,4"


def bench(
    folder: Path,
    target: str,
    clients: str | None = None,
    rate: str | None = None,
    **changes: Any,
) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of a short bench."""
    remote = ":" in target
    server = {"grpc": False, "tensors": "binary", "token_file": str(folder / "token")}
    server = {name: changes.pop(name, value) for name, value in server.items()}
    request = {"model": None, "version": "", "shapes": (SHAPE,), "inputs": None, "expect": None}
    tls = changes.pop("tls", TlsOptions())
    request = {name: changes.pop(name, value) for name, value in request.items()}
    served = {"ranks": None, "replicas": None, "device": None, "threads": None, "slice": None}
    path = folder / "report.json"
    options = BenchOptions(
        target,
        ServedModels(model=target, **{**served, **changes}, name=None),
        ServerOptions(**server, tls=tls)
        if remote
        else ServerOptions(False, "binary", None, TlsOptions()),
        RequestOptions(**request),
        LoadPlan(levels_of(clients, rate), 1.0, 0.1, 20.0, 0),
        ReportFiles(str(folder / "report.svg"), str(path), None),
    )
    status = run_bench(options)
    return status, json.loads(path.read_text())
