"""Table: the figures of a bench as text."""

from __future__ import annotations

from collections.abc import Sequence

from .figures import LevelFigures

HEADER = (
    "load",
    "req/s",
    "mean ms",
    "p50",
    "p90",
    "p99",
    "max",
    "queue",
    "run",
    "collectives",
    "ranks' cores",
    "failed",
    "wrong",
    "generator",
)
_WIDTHS = tuple(map(len, HEADER))


def line(cells: Sequence[str]) -> str:
    """One line, in columns that are as wide as their names, or 9."""
    return "  ".join(cell.rjust(max(9, wide)) for cell, wide in zip(cells, _WIDTHS, strict=True))


def row(one: LevelFigures) -> str:
    """The line of a level."""
    return line(
        (
            str(one.level),
            f"{one.throughput:.1f}",
            *(_milliseconds(x) for x in (one.mean, one.p50, one.p90, one.p99, one.longest)),
            *(_share(x) for x in (one.shares.queue, one.shares.run, one.shares.collectives)),
            "-" if one.processors is None else f"{one.processors:.2f}",
            str(sum(one.failed.values())),
            str(one.wrong),
            f"{one.generator:.0%}{' (!)' if one.busy or one.late else ''}",
        )
    )


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.0f}" if seconds >= 1 else f"{seconds * 1e3:.3g}"


def _share(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"
