"""Report: everything that a bench has measured, as one document that later ones compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from ...comm.errors import InputError, UsageError
from .figures import LevelFigures
from .targets.observation import Setup

_MOST_BYTES = 16 << 20
FORM = 1
"""The number of the layout of reports."""


class BenchReport(msgspec.Struct, frozen=True):
    """The figures of all levels, with their circumstances; `form` numbers this layout.

    `failures` has the first sentence of each class of failures, `time` the begin (ISO 8601, UTC).
    """

    form: Annotated[int, msgspec.Meta(ge=FORM, le=FORM)]
    rankmesh: str
    time: str
    target: str
    protocol: str
    model: str
    setup: Setup
    seconds: float
    warm_up: float
    seed: int
    levels: tuple[LevelFigures, ...]
    failures: dict[str, str]
    complete: bool
    advice: tuple[str, ...]


def write_report(path: str, report: BenchReport) -> None:
    """Write a report as JSON. Raises UsageError."""
    write_text(path, msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n")


def write_text(path: str, text: str) -> None:
    """Write a file. Raises UsageError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}.") from None


def read_report(path: str) -> BenchReport:
    """A report of an earlier bench. Raises InputError where it is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"--compare {path}: cannot be read: {error.strerror}.") from None
    if len(data) > _MOST_BYTES:
        raise InputError(f"--compare {path}: has more than {_MOST_BYTES} bytes.")
    try:
        return msgspec.json.decode(data, type=BenchReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"--compare {path}: is no report of `rankmesh bench --json`: {error}."
        ) from None


def ratio_lines(now: BenchReport, earlier: BenchReport) -> list[str]:
    """A table of this report's figures as multiples of an earlier one's, by level."""
    before = {one.level: one for one in earlier.levels}
    both = [(one, before[one.level]) for one in now.levels if one.level in before]
    if not both:
        return ["no level of the earlier report was measured again: there is nothing to compare"]
    names = ("load", "req/s", "mean", "p50", "p90", "p99")
    lines = [_cells(names)]
    for one, other in both:
        found = zip(_values(one), _values(other), strict=True)
        lines.append(_cells((str(one.level), *(_ratio(new, old) for new, old in found))))
    return lines


def _values(one: LevelFigures) -> tuple[float | None, ...]:
    return one.throughput, one.mean, one.p50, one.p90, one.p99


def _ratio(new: float | None, old: float | None) -> str:
    return "-" if new is None or not old else f"{new / old:.2f}x"


def _cells(cells: Sequence[str]) -> str:
    return "  ".join(cell.rjust(10) for cell in cells)
