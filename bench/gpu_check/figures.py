"""Figures of the GPU check: what a part has measured, as JSON and as a row of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PASSED, MISSED, SKIPPED, FAILED = "passed", "missed", "skipped", "failed"
"""A part is `missed` where it has run and one of its figures is beyond its bar."""


class Skipped(Exception):
    """A part cannot be measured here; the text says why."""


@dataclass(frozen=True)
class Figure:
    """One measured value; `most` and `least` are its bar, None where it has none."""

    what: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the value keeps its bar."""
        low = self.least is None or self.value >= self.least
        return low and (self.most is None or self.value <= self.most)

    @property
    def bar(self) -> str:
        """The bar, in a few characters."""
        if self.most is not None:
            return f"≤ {self.most:g}"
        return "" if self.least is None else f"≥ {self.least:g}"


@dataclass(frozen=True)
class PartResult:
    """What became of a part; `note` says why it was skipped or failed."""

    part: str
    state: str
    seconds: float = 0.0
    figures: Sequence[Figure] = field(default_factory=list)
    note: str = ""

    @classmethod
    def read(cls, part: str, seconds: float, path: Path) -> PartResult:
        """The result that a part has written. Raises OSError, ValueError and KeyError."""
        found = json.loads(path.read_text())
        figures = [Figure(**one) for one in found["figures"]]
        return cls(part, found["state"], seconds, figures, found["note"])


def write_result(path: Path, state: str, figures: Sequence[Figure], note: str = "") -> None:
    """Write what `PartResult.read` reads."""
    made = {"state": state, "figures": [asdict(one) for one in figures], "note": note}
    path.write_text(json.dumps(made))


def table(results: Sequence[PartResult]) -> str:
    """All results as a Markdown table: a row for each figure, one for a part without any."""
    lines = ["| part | what | figure | bar | |", "|---|---|---|---|---|"]
    for one in results:
        for figure in one.figures:
            verdict = "" if not figure.bar else "holds" if figure.holds else "MISSED"
            value = f"{figure.value:.4g} {figure.unit}".strip()
            lines.append(f"| {one.part} | {figure.what} | {value} | {figure.bar} | {verdict} |")
        if one.note or not one.figures:
            lines.append(f"| {one.part} | {one.state}: {one.note} | | | |")
    return "\n".join(lines)
