"""`rankmesh launch`: runs a script on every rank."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options.options import RankTable

Script = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT ARGS...",
        show_default=False,
        help="The script and its arguments, in which {rank}, {local_rank}, {device} and "
        "{world_size} are replaced.",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="The number of ranks; by default that of the rank table, else one per visible "
        "NVIDIA GPU.",
    ),
]


def launch(
    script: Script = None,
    ranks: Ranks = None,
    rank_table: RankTable = None,
    module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is the name of a module, as for `python -m`.")
    ] = False,
    log_dir: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Also write each rank's output to DIR/rank_R.log."),
    ] = None,
    launcher: Annotated[
        str, typer.Option(metavar="local|mpirun", help="How the ranks are started.")
    ] = "local",
) -> None:
    """Run a Python script on every rank: pinned, supervised, its output prefixed with the rank.

    All ranks end within a second when one fails; the exit code is that rank's own.
    """
    from ..launchers import launchers

    asked = launchers.LaunchOptions(
        tuple(script or ()), module, ranks, rank_table, log_dir, launcher
    )
    raise typer.Exit(launchers.launch(asked))
