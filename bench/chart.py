"""A bar chart as SVG, for documents."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_WIDTH, _ROW, _LABEL, _ROOM = 760, 34, 250, 70


def bars(title: str, values: Mapping[str, float]) -> str:
    """Horizontal bars with their values behind them, in the order given."""
    scale = (_WIDTH - _LABEL - _ROOM) / max(values.values())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
        f'height="{_ROW * (len(values) + 1) + 10}" '
        f'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(values.items(), 1):
        y, length = number * _ROW, value * scale
        lines += [
            f'<text x="{_LABEL - 8}" y="{y + 17}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LABEL}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 12}" '
            'fill="#4878a8"/>',
            f'<text x="{_LABEL + length + 6:.1f}" y="{y + 17}">{value:.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"
