"""`rankmesh run`: runs a model once on all its ranks."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Annotated

import typer

from ..options.options import (
    AllowUnauthenticated,
    DecMode,
    Json,
    Key,
    KeyFile,
    Model,
    RankTable,
)

Ranks = Annotated[
    int | None,
    typer.Option(metavar="N", help="The number of ranks; by default the number of model files."),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="NPZ",
        help="Inputs, by name or as in_0, in_1, ...; by default ones. The path may contain "
        "{rank}. The file may contain the reference outputs too.",
    ),
]
Expect = Annotated[
    str | None,
    typer.Option(
        metavar="NPZ",
        help="Reference outputs to compare with, by name or as out_0, out_1, ... The path may "
        "contain {rank}. The file may contain the inputs too.",
    ),
]
Rtol = Annotated[
    float | None,
    typer.Option(metavar="R", min=0, help="Compare each element: |got - ref| <= A + R * |ref|."),
]
Atol = Annotated[float | None, typer.Option(metavar="A", min=0, help="See --rtol.")]
Save = Annotated[
    str | None,
    typer.Option(
        metavar="NPZ",
        help="Write the outputs to this file, as out_0, out_1, ... The path may contain {rank}.",
    ),
]
Repeat = Annotated[
    int, typer.Option(metavar="N", min=0, help="Run N more times, and print the latency.")
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="cpu|gpu|ascend",
        help="The device; by default gpu if each rank can have one, else cpu.",
    ),
]
Collectives = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How ranks exchange tensors: shared_memory, mpi, hierarchical, gloo, nccl, "
        "peer or hccl; by default the one that fits.",
    ),
]
Oversubscribe = Annotated[
    bool, typer.Option("--oversubscribe", help="Let several ranks share one GPU.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print what was chosen, with the reason.")
]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A configuration (.ini), as for Model.build_from_file: the folder of external "
        "weights, named groups of ranks, the rank table, precision, the model cache.",
    ),
]
AllowEqualShards = Annotated[
    bool,
    typer.Option(
        "--allow-equal-shards",
        help="Let ranks of a group have equal shards, for ranks with different inputs.",
    ),
]

Slice = Annotated[
    str | None,
    typer.Option(
        metavar="tensor=N,pipeline=K|auto",
        help="Slice a whole MODEL into K stages of N ranks first, or take the shards that an "
        "earlier run has left in the model cache. MODEL is an .onnx or .mindir file, or a Hugging "
        "Face folder. auto: into as many shards as --ranks says.",
    ),
]
SliceDir = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", help="Keep the shards of --slice there instead of in the model cache."
    ),
]


def run(
    model: Model,
    ranks: Ranks = None,
    rank_table: RankTable = None,
    inputs: Inputs = None,
    expect: Expect = None,
    rtol: Rtol = None,
    atol: Atol = None,
    save: Save = None,
    repeat: Repeat = 0,
    device: Device = None,
    collectives: Collectives = None,
    oversubscribe: Oversubscribe = False,
    verbose: Verbose = False,
    key: Key = None,
    key_file: KeyFile = None,
    dec_mode: DecMode = "AES-GCM",
    allow_unauthenticated: AllowUnauthenticated = False,
    config: Config = None,
    allow_equal_shards: AllowEqualShards = False,
    slice: Slice = None,
    slice_dir: SliceDir = None,
    json: Json = False,
) -> None:
    """Run a model once on all its ranks, print its outputs, and compare them with references.

    Exit codes: 0 ok, 1 out of tolerance, 2 usage, 3 bad model or input, 4 a failed rank.
    """
    given = locals()
    from ..options.user_files import model_key
    from ..run.options import RunOptions

    decryption = model_key(key, key_file, dec_mode, os.environ, allow_unauthenticated)
    same = {field.name: given[field.name] for field in fields(RunOptions) if field.name in given}
    asked = RunOptions(**same, decryption=decryption)
    if json:
        from ..run.json_report import run_as_json as run_and_print
    else:
        from ..run.report import run_as_text as run_and_print
    raise typer.Exit(run_and_print(asked))
