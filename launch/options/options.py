"""Options that several commands have: the type of each, and its help."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="A .mindir or .onnx file; a pattern such as 'llama_rank{rank}.mindir'; or "
        "NAME.mindir for the files NAME0.mindir, NAME1.mindir, ...",
    ),
]
RankTable = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A rank table (JSON), which gives each rank a device; see `rankmesh rank-table`.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, and only that, on standard output.")
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="HEX",
        help="The key of an encrypted model, as hex digits. The list of processes shows it: "
        "prefer --key-file, or the variable RANKMESH_KEY.",
    ),
]
KeyFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="A file that holds the key, as hex digits.")
]
DecMode = Annotated[
    str, typer.Option(metavar="AES-GCM|AES-CBC|SM4-CBC", help="The encryption mode of the model.")
]
AllowUnauthenticated = Annotated[
    bool,
    typer.Option(
        "--allow-unauthenticated",
        help="With a key, read plain models and models without tags too. Any writer of the file "
        "then chooses what runs.",
    ),
]
