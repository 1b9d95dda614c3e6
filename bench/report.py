"""What every benchmark prints: the machine, and medians with their spread as a Markdown table."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from importlib import metadata


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Median and range, as `median [least-most]`."""
    return (
        f"{statistics.median(values):.{digits}f} "
        f"[{min(values):.{digits}f}-{max(values):.{digits}f}]"
    )


def ratios(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Round by round, how many times the base's value."""
    return [value / other for value, other in zip(values, base, strict=True)]


def print_machine(*distributions: str) -> None:
    """One line about where the figures are from: cores, load, versions."""
    versions = [f"{name} {metadata.version(name)}" for name in distributions]
    print(
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores; load {os.getloadavg()[0]:.2f} "
        "before; "
        f"Python {platform.python_version()}; {', '.join(versions)}"
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table with aligned columns."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        print(
            "| "
            + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            + " |"
        )


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()
