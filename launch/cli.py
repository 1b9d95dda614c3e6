"""The command line: `rankmesh` and `python -m rankmesh`; one function per command."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from ..comm.errors import RankmeshError

_OUT_OF_TOLERANCE = 1
_SIGNALLED = 128
app = typer.Typer(
    name="rankmesh", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Run models that were sliced into one shard per device: one process (rank) per shard.")


@app.callback()
def _root() -> None:
    """Keep `run` a subcommand even when it is the only one."""


@app.command()
def run(
    model: Annotated[str, typer.Argument(help="A .mindir or .onnx file; a pattern such as 'llama_rank{rank}.mindir'; or "
                                              "NAME.mindir where NAME0.mindir, NAME1.mindir, ... lie.")],
    ranks: Annotated[Optional[int], typer.Option(help="How many ranks; by default as many as files match.")] = None,  # noqa: UP045
    rank_table: Annotated[Optional[str], typer.Option(help="A rank table (JSON, version 1.0) that says which device each rank has.")] = None,  # noqa: UP045,E501
    inputs: Annotated[Optional[str], typer.Option(help="NPZ with the inputs, by name or as in_0, in_1, ...; by default ones. May hold {rank}.")] = None,  # noqa: UP045,E501
    expect: Annotated[Optional[str], typer.Option(help="NPZ with reference outputs (out_0, ...) to compare with. May hold {rank}.")] = None,  # noqa: UP045,E501
    rtol: Annotated[Optional[float], typer.Option(help="Compare each element: |got - ref| <= atol + rtol * |ref|.")] = None,  # noqa: UP045
    atol: Annotated[Optional[float], typer.Option(help="See --rtol.")] = None,  # noqa: UP045
    save: Annotated[Optional[str], typer.Option(help="Write the outputs to this NPZ (out_0, ...). May hold {rank}.")] = None,  # noqa: UP045
    repeat: Annotated[int, typer.Option(help="Run so many times more, and print the latency.", min=0)] = 0,
    device: Annotated[Optional[str], typer.Option(help="cpu, gpu or ascend; by default gpu where there are enough, else cpu.")] = None,  # noqa: UP045,E501
    collectives: Annotated[str, typer.Option(help="How ranks exchange tensors.")] = "shared_memory",
    oversubscribe: Annotated[bool, typer.Option(help="Let several ranks share one GPU.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what was chosen, and why.")] = False,
) -> None:
    """Run a model once on all its ranks, print its outputs, and compare them with references.

    Exit codes: 0 ok, 1 out of tolerance, 2 usage, 3 bad model or input, 4 a rank failed or is missing.
    """
    from .run import RunOptions
    from .run import run as run_ranks

    if device not in (None, "cpu", "gpu", "ascend"):
        raise typer.BadParameter(f"{device!r} is none of cpu, gpu, ascend", param_hint="--device")
    reports = run_ranks(RunOptions(model, ranks, rank_table, inputs, expect, rtol, atol, save, repeat, device,
                                   collectives, oversubscribe, verbose))
    from .report import print_reports, verdict

    print_reports(reports, expect is not None)
    if expect is not None:
        status, line = verdict(reports)
        print(line)
        raise typer.Exit(status)


@app.command()
def inspect(
    model: Annotated[str, typer.Argument(help="As for `rankmesh run`.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what a model takes, gives, holds and uses, and how its ranks would run it."""
    from .inspect import inspect as inspect_model

    inspect_model(model, json)


def main() -> None:
    """Run a command; errors that Rankmesh raises end in one message and their exit code."""
    from .supervise import Interrupted

    try:
        app()
    except RankmeshError as error:
        print(f"rankmesh: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Interrupted as interrupted:
        print(f"rankmesh: stopped by {interrupted}; all ranks were ended", file=sys.stderr)
        sys.exit(_SIGNALLED + interrupted.number)
    except BrokenPipeError:
        sys.exit(_SIGNALLED + 13)
