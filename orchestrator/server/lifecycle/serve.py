"""Serving: an orchestrator behind HTTP, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import fields
from importlib.metadata import version
from typing import Any

from ....comm.errors import UsageError
from ....comm.limits import require_files
from ...orchestrator import Orchestrator
from ..access.gate import AccessSettings
from ..access.tls_files import TlsFiles
from ..configuration import Configuration
from ..frontend.settings import ServerSettings, checked_processes
from ..observation.access_log import AccessLogSettings

_FILES = 150
"""Descriptors of a server and its orchestrator, without ranks and clients."""

_EXTRA = "serving needs the extra `serve`: pip install 'rankmesh[serve]'"


def serve(
    orchestrator: Orchestrator,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grpc_port: int | None = None,
    drain_delay: float = 0.0,
    drain_timeout: float = 30.0,
    allowed_hosts: tuple[str, ...] = (),
    shared_memory_prefixes: tuple[str, ...] = (),
    strict_json: bool = False,
    management: bool = False,
    weights_folder: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
    tls_client_ca: str | None = None,
    tokens: str | None = None,
    rate: float | None = None,
    burst: float | None = None,
    access_log: str = "off",
    server_processes: int = 1,
    on_listening: Callable[[int], None] | None = None,
) -> None:
    """Serve all models of an orchestrator until TERM or INT, by the Open Inference Protocol.

    Times are in seconds. Then the orchestrator is drained, and stays open. `port` 0 takes any free
    one; `on_listening` is called with the port once clients can connect. With `grpc_port` gRPC is
    answered there as well. With `shared_memory_prefixes` clients may register shared memory whose
    keys begin like this, with `strict_json` answers in JSON have null for NaN and infinities, and
    with `management` they may load and unload models and update weights
    from files in `weights_folder`. The files of TLS are in PEM; with `tls_client_ca` clients need a
    certificate too. `tokens` is a file of tokens, and `rate` the requests a second of each caller,
    of which `burst` may come at once. `access_log` is `text`, `json` or `off`. With several
    `server_processes` clients are answered by as many processes, and this one has the orchestrator.

    Raises UsageError where the port is taken, a file is wrong, or the extra `serve` is missing.
    """
    settings = _settings(locals())
    listening = None if on_listening is None else lambda port, _: on_listening(port)
    run_server(settings, orchestrator, listening)


def _settings(given: dict[str, Any]) -> ServerSettings:
    """The settings of the parameters of `serve`."""
    given["processes"] = checked_processes(given["server_processes"])
    given["access_log"] = AccessLogSettings.named(given["access_log"], None)
    given["access"] = AccessSettings(given["tokens"], given["rate"], given["burst"])
    given["tls"] = TlsFiles.named(
        *(given[f"tls_{one}"] for one in ("certificate", "key", "client_ca"))
    )
    names = [one.name for one in fields(ServerSettings) if one.name in given]
    return ServerSettings(**{name: given[name] for name in names})


def run_server(
    settings: ServerSettings,
    start: Orchestrator | Callable[[], Orchestrator],
    listening: Callable[[int, int | None], None] | None = None,
    configuration: Configuration | None = None,
) -> None:
    """Run a server in a loop of its own until TERM or INT; see ServerLoop.run.

    At HUP `configuration` is read again, where it is given.
    """
    try:
        import uvloop

        from .server_loop import ServerLoop, serve_until_signal
    except ImportError as error:
        raise UsageError(f"{_EXTRA} ({error}).") from None

    require_files(_FILES, "a server")

    async def run() -> None:
        server = ServerLoop(settings, version("rankmesh"), listening, configuration)
        await serve_until_signal(server, start)

    _run(run(), uvloop.new_event_loop)


def _run(
    main: Coroutine[None, None, None], new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """asyncio.run with a loop that is given, as Python 3.10 knows none."""
    loop = new_loop()
    try:
        loop.run_until_complete(main)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
