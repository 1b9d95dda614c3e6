"""`rankmesh run`: its outputs, table and verdict for people."""

from __future__ import annotations

from ..comm.visible import show
from .run import run
from .run_options import RunOptions


def run_as_text(options: RunOptions) -> int:
    """Run as `run` does, print the reports where rank 0 is and return the exit code."""
    reports, first = run(options)
    from .report import print_reports, verdict  # the ranks have been at work meanwhile

    if first:
        print_reports(reports, options.expect is not None)
    if options.expect is None:
        return 0
    status, line = verdict(reports)
    if first:
        show(line)
    return status
