"""`rankmesh run --json`: the report of a run as one JSON document on standard output."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ... import __version__
from ...comm.errors import RankmeshError
from ...comm.job.identity import detect
from ..rank.job import OutputReport, RankReport
from ..supervision.signals import Interrupted
from .options import RunOptions
from .report import latency, notes, verdict
from .run import run


def run_as_json(options: RunOptions) -> int:
    """Run as `run` does, print the document, and return its exit code.

    Under another launcher, rank 0 prints. An error is in the document, and raised.
    """
    told: dict[int, str] = {}
    try:
        reports, first = run(options, told)
    except RankmeshError as error:
        _print_failure(options, error.exit_code, type(error).__name__, str(error), told)
        raise
    except Interrupted as interrupted:
        _print_failure(
            options, interrupted.exit_code, "Interrupted", f"stopped by {interrupted}", told
        )
        raise
    status, text = verdict(reports) if options.expect is not None else (0, "")
    if first:
        _print(
            options,
            status,
            [_rank(report) for report in reports],
            text,
            timing=latency(reports)._asdict() if reports[0].seconds else None,
            remarks=notes(reports),
        )
    return status


def _print_failure(
    options: RunOptions, status: int, kind: str, text: str, told: dict[int, str]
) -> None:
    if detect().rank.rank == 0:
        ranks = [{"rank": rank, "error": said} for rank, said in sorted(told.items())]
        _print(options, status, ranks, error={"type": kind, "text": text})


def _print(
    options: RunOptions,
    status: int,
    ranks: Sequence[dict[str, Any]],
    text: str = "",
    error: dict[str, str] | None = None,
    timing: dict[str, Any] | None = None,
    remarks: Sequence[str] = (),
) -> None:
    matches = None if options.expect is None or error else status == 0
    document = {
        "rankmesh": __version__,
        "model": options.model,
        "exit_code": status,
        "error": error,
        "matches": matches,
        "verdict": text,
        "latency": timing,
        "notes": remarks,
        "ranks": ranks,
    }
    print(json.dumps(document, indent=1, allow_nan=False))


def _rank(report: RankReport) -> dict[str, Any]:
    return {
        "rank": report.rank,
        "error": None,
        "file": report.path,
        "collectives": report.choice.name,
        "seconds": report.seconds,
        "collective_seconds": report.collective_seconds,
        "outputs": [_output(output) for output in report.outputs],
    }


def _output(output: OutputReport) -> dict[str, Any]:
    if not output.has_result:
        return {"name": output.name, "has_result": False}
    return {
        "name": output.name,
        "has_result": True,
        "dtype": output.dtype,
        "shape": output.shape,
        "bytes": output.bytes,
        "first": [_value(text, output.dtype) for text in output.first],
        "comparison": _comparison(output) if output.compared else None,
    }


def _comparison(output: OutputReport) -> dict[str, Any]:
    return {
        "matches": not output.error,
        "max_abs_error": _number(output.max_absolute),
        "max_rel_error": _number(output.max_relative),
        "text": output.error,
    }


def _value(text: str, dtype: str) -> Any:
    """An element: a number or a bool; text for nan, inf and complex numbers, which JSON lacks."""
    if dtype == "bool":
        return text == "True"
    if dtype.startswith(("int", "uint")):
        return int(text)
    return text if dtype.startswith("complex") else _number(float(text))


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)
