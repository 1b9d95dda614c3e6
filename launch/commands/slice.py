"""`rankmesh slice`: slices a model for several ranks, proves the slices, and writes the shards."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options.options import Json

WholeModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="A whole .onnx or .mindir model, or a Hugging Face folder (needs the extra `hf`).",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(metavar="N", help="The number of ranks; with --plan, the plan has it."),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="The folder for the shards, plan.json and report.txt; by default MODEL_shards.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="The most that a rank may need for weights and activations, such as 12GB; by default "
        "all ranks hold about equally few weights.",
    ),
]
Stages = Annotated[
    int,
    typer.Option(metavar="K", min=1, help="Make a pipeline of K stages, which divide the ranks."),
]
Sizes = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=N,...",
        help="The usual sizes of open dimensions, such as batch=1,sequence=512.",
    ),
]
Plan = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Obey this plan.json, which may have been edited."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan; with -o, write plan.json alone.")
]
Verify = Annotated[
    str,
    typer.Option(
        metavar="blocks|full|none",
        help="How the shards are proved before they are kept: block by block, all at once, or not "
        "at all.",
    ),
]
Picture = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.svg",
        help="Draw the graph, coloured by the placement of its nodes, with all collectives.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace other shards in the folder.")]

Collectives = Annotated[
    str,
    typer.Option(
        metavar="rankmesh|tensorrt",
        help="The nodes that are written: Rankmesh's, or TensorRT's DistCollective, which "
        "rankmesh run reads as well.",
    ),
]

Annotate = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write the whole model as FILE, with the plan as ONNX's device configurations.",
    ),
]


def slice_model(
    model: WholeModel,
    ranks: Ranks = None,
    output: Output = None,
    memory: Memory = None,
    stages: Stages = 1,
    sizes: Sizes = None,
    plan: Plan = None,
    dry_run: DryRun = False,
    verify: Verify = "blocks",
    force: Force = False,
    collectives: Collectives = "rankmesh",
    picture: Picture = None,
    annotate: Annotate = None,
    json: Json = False,
) -> None:
    """Slice a whole model into one shard per rank, and prove that the shards compute the same.

    `rankmesh run` then runs them. Needs the extra `slice`.
    """
    from ..slicing.slice import SliceOptions, slice_and_print

    slice_and_print(
        SliceOptions(
            *(model, ranks, output, memory, stages, sizes, plan),
            *(dry_run, verify, force, collectives, picture, annotate, json),
        )
    )
