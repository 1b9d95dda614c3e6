"""`rankmesh key`: makes the key file of a job on several hosts."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Make the key file that a job on several hosts needs.")


@app.callback()
def key() -> None:
    """Keep `make` a command of its own."""


@app.command()
def make(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; one that exists is kept.")
    ],
) -> None:
    """Write a file with new keys (mode 0600).

    Copy it to every host, and set RANKMESH_KEY_FILE there.
    """
    from ...comm.transport.curve import make_keys
    from ...comm.transport.key_file import VARIABLE, write_keys

    write_keys(file, make_keys())
    print(f"wrote {file}: copy it to every host (mode 0600), and set {VARIABLE} to where it is")
