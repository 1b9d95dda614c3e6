"""Drawing: an SVG of rectangles, lines and texts, with no scripts and nothing from outside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .layered_layout import Point

_CHARACTER = 6.3
"""Pixels of one character of a label."""


def text_width(text: str, size: float = 11) -> float:
    """About the pixels of a text."""
    return len(text) * _CHARACTER * size / 11


class Drawing:
    """Elements of a picture; `document` has them all, in a frame that holds them."""

    def __init__(self) -> None:
        self._elements: list[str] = []
        self._width = 0.0
        self._height = 0.0

    def __len__(self) -> int:
        """The number of elements."""
        return len(self._elements)

    def box(
        self,
        corner: Point,
        size: Point,
        fill: str,
        line: str = "none",
        hint: str = "",
        behind: int | None = None,
    ) -> None:
        """A rectangle; `hint` is shown where the pointer rests on it.

        It lies behind all elements from the number `behind` on.
        """
        x, y = corner
        self._extend(x + size[0], y + size[1])
        title = f"<title>{escape(hint)}</title>" if hint else ""
        place = len(self._elements) if behind is None else behind
        self._elements.insert(
            place,
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" '
            f'rx="4" fill="{fill}" stroke="{line}">{title}</rect>',
        )

    def text(
        self, at: Point, text: str, size: float = 11, colour: str = "#222", centre: bool = False
    ) -> None:
        """A line of text: `at` is the left end of its base line, or the middle of it."""
        if not centre:
            self._extend(at[0] + text_width(text, size), at[1] + 4)
        anchor = ' text-anchor="middle"' if centre else ""
        self._elements.append(
            f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size}" fill="{colour}"{anchor}>'
            f"{escape(text)}</text>"
        )

    def line(self, points: Sequence[Point], colour: str = "#8a94a0", width: float = 1.2) -> None:
        """A smooth line through points, downwards."""
        x, y = points[0]
        path = [f"M{x:.1f},{y:.1f}"]
        for to_x, to_y in points[1:]:
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
            x, y = to_x, to_y
        self._elements.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )

    def _extend(self, x: float, y: float) -> None:
        self._width, self._height = max(self._width, x), max(self._height, y)

    def document(self) -> str:
        """The SVG."""
        width, height = self._width + 20, self._height + 20
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n'
            + "\n".join(self._elements)
            + "\n</svg>\n"
        )
