"""`rankmesh run`: the report of a run as text.

Outputs are printed in the form of MindSpore Lite's examples; a table has their distances from
references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...comm.text import counted, show, visible_line
from ..rank.job import OutputReport, RankReport
from .options import RunOptions
from .run import run


def run_as_text(options: RunOptions) -> int:
    """Run as `run` does, print the reports where rank 0 is, and return the exit code."""
    expected = options.expect is not None
    reports, first = run(options, meanwhile=_import_rich if expected else None)
    if first:
        print_reports(reports, expected)
    if not expected:
        return 0
    status, line = verdict(reports)
    if first:
        show(line)
    return status


def print_reports(reports: Sequence[RankReport], expected: bool) -> None:
    """Print everything about a finished run on standard output."""
    for report in reports:
        _print_outputs(report)
    if expected:
        _print_table(reports)
    if reports[0].seconds:
        _print_latency(reports)
    for note in notes(reports):
        show(f"note: {note}")


def notes(reports: Sequence[RankReport]) -> list[str]:
    """Remarks on a finished run that may be unexpected."""
    found = [report.saved for report in reports if report.saved]
    found += dict.fromkeys(remark for report in reports for remark in report.remarks)
    if len(reports) > 1 and not any(report.exchanges for report in reports):
        found.append(_apart(reports))
    return found


def _apart(reports: Sequence[RankReport]) -> str:
    """The remark on ranks without collectives, with advice."""
    ranks, path = len(reports), reports[0].path
    if any(report.path != path for report in reports):
        return (
            f"{path} and the other shards have no collectives: each rank computed its outputs "
            "alone. If that is not intended, they are not shards of one model."
        )
    return (
        f"{path} has no collectives: these are {ranks} whole copies of the model, each of which "
        "computed all of it, no faster than one. For more requests at a time use replicas "
        f"(rankmesh.Orchestrator(model, replicas={ranks})); for one model on {ranks} ranks, slice "
        "it first (rankmesh slice, or --slice of this command)."
    )


def _import_rich() -> None:
    """Import the modules of the table, while the ranks are still at work."""
    import rich.console
    import rich.markup
    import rich.table  # noqa: F401


def verdict(reports: Sequence[RankReport]) -> tuple[int, str]:
    """The exit code (0 or 1) and the last line of a run with --expect."""
    compared = [(r, o) for r in reports for o in r.outputs if o.compared]
    wrong = [(r, o) for r, o in compared if o.error]
    outputs = counted(len(compared), "output")
    if not compared:
        return 1, "FAILED: no rank has both a result and a reference, so nothing was compared"
    if wrong:
        report, output = wrong[0]
        first = f"rank {report.rank} {output.name}: {output.error}"
        return (
            1,
            f"FAILED: {len(wrong)} of {outputs} {'differs' if len(wrong) == 1 else 'differ'}; "
            f"{first}",
        )
    worst = max(o.max_relative or 0.0 for _, o in compared)
    ranks = counted(len({r.rank for r, _ in compared}), "rank")
    return 0, (
        f"OK: {outputs} of {ranks} {'matches' if len(compared) == 1 else 'match'}; largest "
        f"relative error {worst:.2g}"
    )


def _print_outputs(report: RankReport) -> None:
    show(f"rank {report.rank} ({report.path})")
    for output in report.outputs:
        if not output.has_result:
            show(f"tensor's name is:{output.name} has no result on this rank")
            continue
        show(
            f"tensor's name is:{output.name} data size is:{output.bytes} tensor elements num "
            f"is:{output.elements}"
        )
        show(f"output data is: {' '.join(output.first)}")


def _print_table(reports: Sequence[RankReport]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        "rank", "output", "shape", "dtype", "first values", "max abs error", "max rel error", ""
    )
    for report in reports:
        for output in report.outputs:
            table.add_row(
                *(
                    escape(visible_line(cell))
                    for cell in (str(report.rank), output.name, *_cells(output))
                )
            )
    Console(width=None if Console().is_terminal else 140).print(table)


def _cells(output: OutputReport) -> tuple[str, ...]:
    if not output.has_result:
        return ("-",) * 6
    shape = "x".join(map(str, output.shape)) or "0-d"
    first = " ".join(_short(value) for value in output.first[:3])
    if not output.compared:
        return shape, output.dtype, first, "-", "-", "not compared"
    return (
        shape,
        output.dtype,
        first,
        _distance(output.max_absolute),
        _distance(output.max_relative),
        f"differs: {output.error}" if output.error else "ok",
    )


def _distance(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _short(value: str) -> str:
    """A number in six digits; other values, such as bools and complex numbers, as they are."""
    try:
        return f"{float(value):.6g}"
    except ValueError:
        return value


class Latency(NamedTuple):
    """Seconds of the timed requests, each by its slowest rank.

    `collective_share` is the part inside collectives, from 0 to 1.
    """

    requests: int
    median_seconds: float
    p10_seconds: float
    p90_seconds: float
    collective_share: float


def latency(reports: Sequence[RankReport]) -> Latency:
    """The latency of a run with --repeat."""
    import statistics  # takes milliseconds, for runs with --repeat only

    total = [max(times) for times in zip(*(r.seconds for r in reports), strict=True)]
    inside = [
        max(r.collective_seconds[i] / r.seconds[i] for r in reports) for i in range(len(total))
    ]
    deciles = (
        statistics.quantiles(total, n=10, method="inclusive") if len(total) > 1 else [total[0]] * 9
    )
    return Latency(
        len(total), statistics.median(total), deciles[0], deciles[-1], statistics.median(inside)
    )


def _print_latency(reports: Sequence[RankReport]) -> None:
    found = latency(reports)
    print(
        f"latency of {counted(found.requests, 'request')}, slowest rank: median "
        f"{found.median_seconds * 1e3:.3f} ms, p10 {found.p10_seconds * 1e3:.3f} ms, "
        f"p90 {found.p90_seconds * 1e3:.3f} ms; "
        f"in collectives ({reports[0].choice.name}) {found.collective_share:.1%}"
    )
