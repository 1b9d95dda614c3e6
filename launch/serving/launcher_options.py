"""Launcher options of `rankmesh serve`: say what starts the ranks, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ...orchestrator.config.launcher_settings import LauncherSettings


@dataclass(frozen=True)
class LauncherOptions:
    """The options of LauncherSettings."""

    launcher: Annotated[
        str | None,
        typer.Option(
            metavar="local|agents|ray",
            help="Start ranks by agents on other hosts, which Ray may start.",
        ),
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where agents join, by `rankmesh agent --join`."),
    ] = None
    agents: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How many agents join before the ranks start."),
    ] = None
    key_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The key file; by default that of RANKMESH_KEY_FILE."),
    ] = None
    join_timeout: Annotated[
        float | None, typer.Option(metavar="S", min=0.1, help="Seconds until they have joined.")
    ] = None
    host_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="S", min=0.1, help="An agent is lost after S seconds without a sign of life."
        ),
    ] = None
    trusted_network: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NETWORK",
            help="Tensors go in clear on this network, such as 10.0.0.0/24. May be repeated.",
        ),
    ] = None

    ray_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The Ray cluster, by default this host's."),
    ] = None

    def settings(self) -> LauncherSettings:
        """The options as settings."""
        from ...orchestrator.config.launcher_settings import LauncherSettings

        return LauncherSettings(
            self.launcher,
            self.listen,
            self.agents,
            self.key_file,
            self.join_timeout,
            self.host_timeout,
            tuple(self.trusted_network) if self.trusted_network else None,
            self.ray_address,
        )


LOCAL = LauncherOptions()
"""None of them: the ranks are children of the server."""
