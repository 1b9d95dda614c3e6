"""What `rankmesh run` prints: the outputs as MindSpore Lite's examples do, and a table of distances."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..comm.counted import counted
from ..comm.visible import show, visible_line
from .job import OutputReport, RankReport

_TABLE_VALUES = 3


def print_reports(reports: Sequence[RankReport], expected: bool) -> None:
    """Everything about a finished run, on standard output."""
    for report in reports:
        _print_outputs(report)
    if expected:
        _print_table(reports)
    if reports[0].seconds:
        _print_latency(reports)
    for note in notes(reports):
        show(f"note: {note}")


def notes(reports: Sequence[RankReport]) -> list[str]:
    """What a user may not expect of a finished run."""
    found = [report.saved for report in reports if report.saved]
    if len(reports) > 1 and not any(report.exchanges for report in reports):
        found.append(_apart(reports))
    return found


def _apart(reports: Sequence[RankReport]) -> str:
    """What ranks without collectives are, and what to do."""
    ranks, path = len(reports), reports[0].path
    if any(report.path != path for report in reports):
        return (f"{path} and the other shards have no collectives: each rank computed its outputs alone. If that is "
                f"not meant, they are no shards of one model.")
    return (f"{path} has no collectives: these are {ranks} whole copies of the model, each of which computed all of "
            f"it, no faster than one. For more requests at a time use replicas (rankmesh.Orchestrator(model, "
            f"replicas={ranks})); for one model on {ranks} ranks it has to be sliced first "
            f"('rankmesh slice', a coming command, will do that).")


def prepare() -> None:
    """Import what `print_reports` needs for its table, while the ranks are still at work."""
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
        return 1, f"FAILED: {len(wrong)} of {outputs} {'differs' if len(wrong) == 1 else 'differ'}; {first}"
    worst = max(o.max_relative or 0.0 for _, o in compared)
    ranks = counted(len({r.rank for r, _ in compared}), "rank")
    return 0, (f"OK: {outputs} of {ranks} {'matches' if len(compared) == 1 else 'match'}; largest relative error "
               f"{worst:.2g}")


def _print_outputs(report: RankReport) -> None:
    show(f"rank {report.rank} ({report.path})")
    for output in report.outputs:
        if not output.has_result:
            show(f"tensor's name is:{output.name} has no result on this rank")
            continue
        show(f"tensor's name is:{output.name} data size is:{output.bytes} tensor elements num is:{output.elements}")
        show(f"output data is: {' '.join(output.first)}")


def _print_table(reports: Sequence[RankReport]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("rank", "output", "shape", "dtype", "first values", "max abs error", "max rel error", "")
    for report in reports:
        for output in report.outputs:
            table.add_row(*(escape(visible_line(cell)) for cell in (str(report.rank), output.name, *_cells(output))))
    Console(width=None if Console().is_terminal else 140).print(table)


def _cells(output: OutputReport) -> tuple[str, ...]:
    if not output.has_result:
        return ("-",) * 6
    shape = "x".join(map(str, output.shape)) or "0-d"
    first = " ".join(_short(value) for value in output.first[:_TABLE_VALUES])
    if not output.compared:
        return shape, output.dtype, first, "-", "-", "not compared"
    return (shape, output.dtype, first, _distance(output.max_absolute), _distance(output.max_relative),
            f"differs: {output.error}" if output.error else "ok")


def _distance(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _short(value: str) -> str:
    """A number in six digits; what is no number (bools, complex ones) as it is."""
    try:
        return f"{float(value):.6g}"
    except ValueError:
        return value


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of the timed requests, each by its slowest rank; `collective_share` is the part inside collectives."""

    requests: int
    median: float
    p10: float
    p90: float
    collective_share: float


def latency(reports: Sequence[RankReport]) -> Latency:
    """Of a run with --repeat."""
    total = _slowest([r.seconds for r in reports])
    inside = [max(r.collective_seconds[i] / r.seconds[i] for r in reports) for i in range(len(total))]
    deciles = statistics.quantiles(total, n=10, method="inclusive") if len(total) > 1 else [total[0]] * 9
    return Latency(len(total), statistics.median(total), deciles[0], deciles[-1], statistics.median(inside))


def _print_latency(reports: Sequence[RankReport]) -> None:
    found = latency(reports)
    print(f"latency of {counted(found.requests, 'request')}, slowest rank: median {found.median * 1e3:.3f} ms, p10 "
          f"{found.p10 * 1e3:.3f} ms, p90 {found.p90 * 1e3:.3f} ms; in collectives ({reports[0].collectives}) "
          f"{found.collective_share:.1%}")


def _slowest(series: Sequence[tuple[float, ...]]) -> list[float]:
    """Per request, the time of the slowest rank."""
    return [max(times) for times in zip(*series, strict=True)]
