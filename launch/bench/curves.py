"""Curves: throughput and latencies of a bench by its levels, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

from .report import BenchReport

_WIDTH, _HEIGHT = 380.0, 220.0
_LEFT, _TOP, _GAP = 64.0, 70.0, 96.0
_TICKS = 4


class Curve(NamedTuple):
    """One line: a value per level, None where there is none."""

    name: str
    colour: str
    values: Sequence[float | None]


def curves(report: BenchReport) -> str:
    """The picture of a report with one level or more: throughput on the left, latencies in
    milliseconds on the right.
    """
    levels = report.levels
    labels = [f"{one.clients if one.rate is None else f'{one.rate:g}'}" for one in levels]
    axis = "clients" if levels[0].rate is None else "requests a second sent"
    throughput = [Curve("answered", "#4878a8", [one.throughput for one in levels])]
    latencies = [
        Curve("p50", "#4878a8", [_milliseconds(one.p50) for one in levels]),
        Curve("p90", "#e49444", [_milliseconds(one.p90) for one in levels]),
        Curve("p99", "#b3261e", [_milliseconds(one.p99) for one in levels]),
    ]
    title = f"{report.model}: {report.target}, {report.protocol}"
    second = _LEFT + _WIDTH + _GAP
    parts = [
        _text(_LEFT, 22, title, "font-weight='bold' font-size='14'"),
        *_panel(_LEFT, "requests/s", axis, labels, throughput),
        *_panel(second, "latency in ms", axis, labels, latencies),
    ]
    return _document(second + _WIDTH + 30, _TOP + _HEIGHT + 50, parts)


def round_up(value: float) -> float:
    """The end of an axis for a value above 0: 1, 2, 2.5, 4, 5, 8 or 10 times a power of ten."""
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value)


def _panel(
    left: float, title: str, axis: str, labels: Sequence[str], drawn: Sequence[Curve]
) -> list[str]:
    """One diagram with its axes and lines."""
    values = [one for curve in drawn for one in curve.values if one]
    top = round_up(max(values, default=1.0))
    bottom = _TOP + _HEIGHT
    found = [_text(left, _TOP - 26, title)]
    for tick in range(_TICKS + 1):
        y = bottom - _HEIGHT * tick / _TICKS
        found.append(_line([(left, y), (left + _WIDTH, y)], "#d5dbe1", 1))
        found.append(_text(left - 6, y + 4, f"{top * tick / _TICKS:g}", "text-anchor='end'"))
    places = _places(left, len(labels))
    for x, label in zip(places, labels, strict=True):
        found.append(_text(x, bottom + 18, label, "text-anchor='middle'"))
    found.append(_text(left + _WIDTH / 2, bottom + 36, axis, "text-anchor='middle'"))
    for number, curve in enumerate(drawn):
        points = [
            (x, bottom - _HEIGHT * value / top)
            for x, value in zip(places, curve.values, strict=True)
            if value is not None
        ]
        found.append(_line(points, curve.colour, 2))
        found += [
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{curve.colour}'/>" for x, y in points
        ]
        found.append(_text(left + 60 * number, _TOP - 8, curve.name, f"fill='{curve.colour}'"))
    return found


def _places(left: float, count: int) -> list[float]:
    """Where the levels stand on the axis: with equal gaps."""
    return [left + _WIDTH * (number + 0.5) / count for number in range(count)]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _line(points: Sequence[tuple[float, float]], colour: str, width: float) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'/>"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"


def _document(width: float, height: float, parts: Sequence[str]) -> str:
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}' font-family='Helvetica, Arial, sans-serif' "
        "font-size='12' fill='#222'>"
    )
    return "\n".join([head, "<rect width='100%' height='100%' fill='#fff'/>", *parts, "</svg>\n"])
