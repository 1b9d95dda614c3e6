"""Bench: the run of `rankmesh bench`, from its options to its reports."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TypeVar

from ...comm.errors import UsageError
from ...comm.text import show
from ..supervision.signals import Interrupted, interruptible
from .advice import advice_of
from .curves import curves
from .figures import LevelFigures
from .opening import opened
from .options import BenchOptions
from .report import FORM, BenchReport, ratio_lines, read_report, write_report, write_text
from .session import measured
from .table import HEADER, line, row

ResultT = TypeVar("ResultT")


def run_bench(options: BenchOptions) -> int:
    """Measure, print and write everything; 1 where answers were wrong, else 0.

    Raises Interrupted where a signal ended it, after the report of what there is.
    """
    files = options.files
    earlier = None if files.compare is None else read_report(files.compare)
    for path in filter(None, (files.svg, files.json)):
        _require_writable(path)
    with interruptible("nothing was measured"):
        report, number = _run(_measured(options))
    _print_remarks(report, earlier)
    if files.json is not None:
        write_report(files.json, report)
    if files.svg is not None and report.levels:
        write_text(files.svg, curves(report))
    if number:
        raise Interrupted(number, "what is above was measured before")
    return int(any(one.wrong for one in report.levels))


async def _measured(options: BenchOptions) -> tuple[BenchReport, int]:
    """The report, and the number of the signal that ended it early, else 0."""
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    async with opened(options) as target:
        setup = await target.setup()
        show(line(HEADER))
        found = await measured(target, options, _print_level)
    plan = options.plan
    return BenchReport(
        FORM,
        version("rankmesh"),
        started,
        options.target,
        target.protocol,
        target.model.name,
        setup,
        plan.seconds,
        plan.warm_up,
        plan.seed,
        tuple(found.figures),
        found.sentences,
        not found.signal,
        tuple(advice_of(found.figures, setup)),
    ), found.signal


def _print_level(level: LevelFigures) -> None:
    show(row(level))
    sys.stdout.flush()  # a pipe gets each level when it is measured, too


def _print_remarks(report: BenchReport, earlier: BenchReport | None) -> None:
    for kind, sentence in report.failures.items():
        show(f"{kind}: {sentence}")
    for sentence in report.advice:
        show(sentence)
    if earlier is not None:
        show(f"as multiples of {earlier.time} ({earlier.target}, {earlier.protocol}):")
        for text in ratio_lines(report, earlier):
            show(text)


def _require_writable(path: str) -> None:
    """UsageError where a report cannot be written; measuring takes long."""
    if os.path.isdir(path) or not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
        raise UsageError(f"{path}: expected a file in a folder that can be written.")


def _run(main: Coroutine[None, None, ResultT]) -> ResultT:
    """Run in a loop of uvloop where it is installed, else of asyncio."""
    try:
        import uvloop
    except ImportError:
        loop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(asyncio.sleep(0))  # connections that were closed are gone after it
        loop.close()
