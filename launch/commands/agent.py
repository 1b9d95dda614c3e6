"""`rankmesh agent`: starts ranks of an orchestrator on another host, on this one."""

from __future__ import annotations

import os
from typing import Annotated

import typer

Join = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Where the orchestrator listens for agents.")
]
KeyFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The key file; by default that of RANKMESH_KEY_FILE."),
]
Name = Annotated[
    str, typer.Option(metavar="NAME", help="Its name in messages, by default that of the host.")
]
Places = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=65536, help="How many ranks it takes, by default one per core."
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        metavar="S",
        min=1,
        help="Seconds to wait for an orchestrator that is not there, or is lost.",
    ),
]
HostTimeout = Annotated[
    float,
    typer.Option(
        metavar="S", min=0.1, help="Seconds without a sign of life after which it ends the ranks."
    ),
]


def agent(
    join: Join,
    key_file: KeyFile = None,
    name: Name = "",
    ranks: Places = None,
    wait: Wait = 60.0,
    host_timeout: HostTimeout = 5.0,
) -> None:
    """Start ranks on this host for an orchestrator elsewhere, until that closes.

    The orchestrator has `launcher: agents`. When it is gone, all ranks end at once.
    """
    from ...comm.transport.key_file import keys_from_environment, read_keys
    from ...orchestrator.config.agent_settings import split_address
    from ...orchestrator.hosted.agent import run_agent
    from ..options.notice import notice
    from ..supervision.signals import interruptible

    address = split_address("--join", join)
    keys = read_keys(key_file) if key_file is not None else keys_from_environment(os.environ)
    with interruptible("all ranks were ended"):
        run_agent(address, keys, name, ranks, wait, host_timeout, lambda: notice(f"joined {join}"))
    notice("the orchestrator has closed: the agent ends")
