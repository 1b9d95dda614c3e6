"""Opening of targets: the server of a URL, or an orchestrator that is started in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ...comm.errors import UsageError
from ...comm.text import counted
from ..options.notice import notice
from .options import BenchOptions
from .targets.server_address import ServerAddress, TlsOptions, address_of, is_address
from .targets.target import Target

if TYPE_CHECKING:
    from .targets.grpc_target import GrpcTarget
    from .targets.rest_target import RestTarget

_EXTRA = "a bench of a server needs the extra `serve`: pip install 'rankmesh[serve]'"
_FORMS = ("binary", "json")


@asynccontextmanager
async def opened(options: BenchOptions) -> AsyncIterator[Target]:
    """The target, until it is closed. Raises UsageError, and what starting models raises."""
    if is_address(options.target):
        target = _server(options)
        try:
            await target.find(options.request.model, options.request.version)
            yield target
        finally:
            await target.close()
        return
    _require_no_server_options(options)
    from .targets.local_target import LocalTarget

    with options.served.start() as orchestrator:
        notice(f"ready: {counted(len(orchestrator.status().ranks), 'rank')}")
        local = LocalTarget(orchestrator, options.request.model)
        try:
            yield local
        finally:
            await local.close()


def _server(options: BenchOptions) -> GrpcTarget | RestTarget:
    """The server of a URL, which was not asked anything yet."""
    _require_no_model_options(options)
    server = options.server
    if server.tensors not in _FORMS:
        raise UsageError(f"--tensors {server.tensors}: expected binary or json.")
    if server.grpc and server.tensors != _FORMS[0]:
        raise UsageError("--tensors json is for HTTP: leave --grpc out.")
    address = address_of(options.target, server.token_file, server.tls)
    grpc = server.grpc or options.target.startswith("grpc")
    return _grpc_target(address) if grpc else _rest_target(address, server.tensors)


def _grpc_target(address: ServerAddress) -> GrpcTarget:
    try:
        from .targets.grpc_target import GrpcTarget
    except ImportError as error:
        raise UsageError(f"{_EXTRA} ({error}).") from None
    return GrpcTarget(address)


def _rest_target(address: ServerAddress, form: str) -> RestTarget:
    try:
        from .targets.rest_target import RestTarget
    except ImportError as error:
        raise UsageError(f"{_EXTRA} ({error}).") from None
    return RestTarget(address, form)


def _require_no_model_options(options: BenchOptions) -> None:
    served = options.served
    wrong = [
        name
        for name in ("ranks", "replicas", "device", "threads", "slice")
        if getattr(served, name) is not None
    ]
    if wrong:
        raise UsageError(
            f"--{wrong[0]} is for a model that is started here: {options.target} is a server."
        )


def _require_no_server_options(options: BenchOptions) -> None:
    server = options.server
    given = {
        "--grpc": server.grpc,
        "--tensors": server.tensors != _FORMS[0],
        "--token-file": server.token_file is not None,
        "--tls-ca": server.tls != TlsOptions(),
        "--model-version": options.request.version,
    }
    for name, there in given.items():
        if there:
            raise UsageError(
                f"{name} is for the URL of a server, such as http://localhost:8000: "
                f"{options.target} is a model."
            )
