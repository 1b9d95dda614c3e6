"""`rankmesh update-weights`: new weights for a model that another process runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from ...comm.errors import UsageError
from ...comm.text import show

_TIMEOUT = 600.0
"""Seconds within which the owner has read the file and taken the weights over."""


def update_weights(
    pid: Annotated[
        list[int],
        typer.Option(
            metavar="OWNER",
            help="The process, which get_model_info('current_pid') names there. Once for each "
            "rank.",
        ),
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="The weights, by name; {rank} in it is the rank of the process.",
        ),
    ],
    layout: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AXIS",
            help="Cut full weights of this name or pattern along an axis, one part per rank.",
        ),
    ] = None,
    delta: Annotated[
        bool, typer.Option("--delta", help="Add to the exported weights instead of replacing them.")
    ] = False,
) -> None:
    """Replace weights of running models by those in a .safetensors, .npz, .mindir or .ms file.

    The file may have all weights or some. The processes must belong to this user, and share their
    weights or name a variable_weights_file. For a model of several ranks name all processes: they
    switch to the new weights once all have them.
    """
    axes = parse_layout(layout or [])
    for owner in pid:
        show(update_process(owner, file, axes, delta))


def parse_layout(entries: Sequence[str]) -> dict[str, int]:
    """Axes by name or pattern, from texts `NAME=AXIS`; UsageError where one is malformed."""
    found = {}
    for entry in entries:
        name, equals, axis = entry.rpartition("=")
        number = axis.removeprefix("-")
        if not (equals and name and number.isdecimal() and -64 <= int(axis) < 64):
            raise UsageError(
                f"--layout is '{entry}', expected NAME=AXIS, such as '*.fc1.weight=0'."
            )
        found[name] = int(axis)
    return found


def update_process(pid: int, path: str, layout: dict[str, int], delta: bool) -> str:
    """Make the process `pid` take the weights in the file, and return what it did.

    `{rank}` in `path` is the rank of that process. Raises UsageError.
    """
    from ...comm.host.regular_file import open_regular
    from ...comm.job.shard import RANK
    from ...comm.sharing.attachment import ask_for_rank, ask_for_update
    from ...comm.sharing.messages import Update

    path = os.path.abspath(path)
    if RANK in path:
        path = path.replace(RANK, str(ask_for_rank(pid)))
    try:
        file = open_regular(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    with file:
        return ask_for_update(pid, file.fileno(), Update(path, delta, layout), _TIMEOUT)
