"""Layered layout: places the vertices of an acyclic graph in rows, so that all edges go down.

A value that passes several rows gets a narrow place in each of them, through which its line goes.
Vertices of a row are ordered by the mean position of their neighbours, which avoids crossings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GAP = 12.0
"""Pixels between neighbours in a row."""

_LANE = 6.0
_SWEEPS = 6

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies: `places` has the centre of each vertex, `lines` each edge's points.

    x is in pixels, y is the number of the row, from 0 to `rows` - 1.
    """

    places: Mapping[str, Point]
    lines: Sequence[Sequence[Point]]
    width: float
    rows: int


def layered(widths: Mapping[str, float], edges: Sequence[tuple[str, str]]) -> Layout:
    """The layout of vertices with these widths; `edges` only go from earlier vertices to later."""
    return _LayeredGraph(widths, edges).layout()


class _LayeredGraph:
    """The rows of a graph, with places for the edges that pass through."""

    def __init__(self, widths: Mapping[str, float], edges: Sequence[tuple[str, str]]) -> None:
        self._widths = dict(widths)
        self._row = dict.fromkeys(widths, 0)
        for source, target in sorted(edges, key=lambda edge: list(widths).index(edge[1])):
            self._row[target] = max(self._row[target], self._row[source] + 1)
        self._paths = [self._path(source, target) for source, target in dict.fromkeys(edges)]
        self._rows: list[list[str]] = [[] for _ in range(max(self._row.values(), default=0) + 1)]
        for name, row in self._row.items():
            self._rows[row].append(name)

    def _path(self, source: str, target: str) -> list[str]:
        """The vertices and the lanes of an edge; edges from one vertex share their lanes."""
        found = [source]
        for row in range(self._row[source] + 1, self._row[target]):
            lane = f"{source}\n{row}"
            self._row[lane], self._widths[lane] = row, _LANE
            found.append(lane)
        return [*found, target]

    def layout(self) -> Layout:
        """Order the rows, and measure them."""
        above, below = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for path in self._paths:
            for upper, lower in zip(path, path[1:], strict=False):
                above[lower].append(upper)
                below[upper].append(lower)
        for sweep in range(_SWEEPS):
            if sweep % 2:
                self._order(self._rows[::-1], below)
            else:
                self._order(self._rows, above)
        wide = max((self._row_width(row) for row in self._rows), default=0.0)
        places: dict[str, Point] = {}
        for number, row in enumerate(self._rows):
            x = (wide - self._row_width(row)) / 2
            for name in row:
                places[name] = (x + self._widths[name] / 2, float(number))
                x += self._widths[name] + GAP
        lines = [[places[name] for name in path] for path in self._paths]
        return Layout(places, lines, wide, len(self._rows))

    def _order(self, rows: Sequence[list[str]], near: Mapping[str, Sequence[str]]) -> None:
        """Order each row by the mean position of its neighbours in the row before."""
        position: dict[str, float] = {}
        for row in rows:
            own = {name: index / max(len(row) - 1, 1) for index, name in enumerate(row)}

            def mean(name: str, own: Mapping[str, float] = own) -> float:
                found = [position[one] for one in near.get(name, ()) if one in position]
                return sum(found) / len(found) if found else own[name]

            row.sort(key=mean)
            for index, name in enumerate(row):
                position[name] = (index + 1) / (len(row) + 1)

    def _row_width(self, row: Sequence[str]) -> float:
        return sum(self._widths[name] for name in row) + GAP * max(len(row) - 1, 0)
