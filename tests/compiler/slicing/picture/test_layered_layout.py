"""Layered layouts: all edges go down, and nothing overlaps in a row."""

from __future__ import annotations

import random

import pytest

from rankmesh.compiler.slicing.picture.layered_layout import GAP, layered

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("seed", range(3))
def test_edges_go_down_and_vertices_do_not_overlap(seed: int) -> None:
    draw = random.Random(seed)
    widths = {f"v{index}": draw.uniform(20, 100) for index in range(30)}
    names = list(widths)
    edges = [tuple(sorted(draw.sample(range(30), 2))) for _ in range(45)]
    layout = layered(widths, [(names[a], names[b]) for a, b in edges])
    for line in layout.lines:
        rows = [y for _, y in line]
        assert rows == list(range(int(rows[0]), int(rows[-1]) + 1))
    for row in range(layout.rows):
        placed = sorted((x, name) for name, (x, y) in layout.places.items() if y == row)
        for (left, one), (right, other) in zip(placed, placed[1:], strict=False):
            width = (widths.get(one, 0) + widths.get(other, 0)) / 2
            assert right - left >= width + GAP - 1e-6 or not {one, other} <= set(widths)
        assert all(0 <= x <= layout.width for x, _ in placed)


def test_no_vertices_are_no_rows() -> None:
    assert layered({}, []).lines == []
