"""Conversions: the nodes that turn a value from one placement into another.

Each takes a value of one rank and gives the value in its other placement. All ranks of a stage
emit the same collectives in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import Dims, begins, fixed
from ..placement.edges import cut_alike, edges, has_rows, overlap
from ..placement.local_node import LocalGraph
from ..placement.placements import (
    MAX,
    SUM,
    WHOLE,
    Partial,
    Placement,
    Replicated,
    Split,
    Windows,
)


class ConversionEmitter:
    """Emits conversions of one value into the graph of one rank of a stage."""

    def __init__(self, graph: LocalGraph, ranks: Sequence[int], world_size: int) -> None:
        self._graph = graph
        self._ranks = tuple(ranks)
        self._world_size = world_size
        self._made: list[ir.Node] = []
        self._stem = ""

    def convert(
        self, value: ir.Value, dims: Dims, before: Placement, after: Placement
    ) -> tuple[ir.Value, list[ir.Node]]:
        """The value in its other placement, and the nodes that make it, in order.

        `dims` are those of the whole value. ValueError for a pair that has no conversion.
        """
        self._made, self._stem = [], str(value.name)
        return self._converted(value, dims, before, after), self._made

    def _converted(
        self, value: ir.Value, dims: Dims, before: Placement, after: Placement
    ) -> ir.Value:
        match before, after:
            case Partial(), Replicated():
                return self._all_reduce(value, before)
            case Partial(), Split():
                return self._reduce_scatter(value, dims, before, after)
            case Windows(), Split() | Windows() if before.holds(after):
                return self._part(value, after, before.starts[self._graph.rank])
            case Split() | Windows(), Replicated():
                return self._all_gather(value, dims, before)
            case Split(), Split():
                return self._all_to_all(value, dims, before, after)
            case Split(), Windows() if cut_alike(before, after):
                return self._window(value, dims, before, after)
            case Split() | Partial() | Windows(), Split() | Windows():
                return self._part(self._converted(value, dims, before, WHOLE), after)
            case Replicated(), Split() | Windows():
                return self._part(value, after)
            case Replicated(), Partial():
                return self._term(value, after)
        raise ValueError(f"{value.name}: {before} cannot become {after}.")

    def _node(
        self,
        operator: str,
        inputs: Sequence[ir.Value],
        dtype: ir.DataType | None = None,
        **attributes: object,
    ) -> ir.Value:
        made = self._graph.node(operator, inputs, self._stem, attributes, dtype=dtype)
        self._made.append(made)
        return made.outputs[0]

    def _collective(self, operator: str, value: ir.Value, **attributes: object) -> ir.Value:
        rank, size = self._graph.rank, len(self._ranks)
        whole_world = size == self._world_size
        group: dict[str, object] = {
            "group": "world" if whole_world else f"stage{self._ranks[0] // size}"
        }
        if not whole_world:
            group["ranks"] = self._ranks
        made = self._graph.node(
            operator,
            [value],
            self._stem,
            {**group, "size": size, "position": rank, **attributes},
            domain="rankmesh",
        )
        self._made.append(made)
        return made.outputs[0]

    def _constant(self, array: np.ndarray) -> ir.Value:
        return self._graph.constant(array, f"{self._stem}.constant")

    def _indices(self, *numbers: int) -> ir.Value:
        return self._constant(np.array(numbers, np.int64))

    def _slice(self, value: ir.Value, cuts: Mapping[int, tuple[int, int]]) -> ir.Value:
        """The elements from start to stop of some axes."""
        starts, stops = zip(*cuts.values(), strict=True)
        return self._node(
            "Slice",
            [value, self._indices(*starts), self._indices(*stops), self._indices(*cuts)],
        )

    def _all_reduce(self, value: ir.Value, before: Partial) -> ir.Value:
        return self._collective("AllReduce", value, reduction=before.reduction)

    def _part(self, value: ir.Value, after: Split | Windows, first: int = 0) -> ir.Value:
        """This rank's part of a whole value, or of one that begins with element `first`."""
        parts = [
            self._slice(value, {after.axis: (start - first, stop - first)})
            for start, stop in after.intervals(self._graph.rank)
        ]
        return parts[0] if len(parts) == 1 else self._node("Concat", parts, axis=after.axis)

    def _term(self, value: ir.Value, after: Partial) -> ir.Value:
        """A whole value as a term: the first rank has it, the others zeros; all for a maximum."""
        if after == MAX:
            return self._node("Identity", [value])
        assert value.dtype is not None
        mine = self._constant(np.array(self._graph.rank == 0))
        zero = self._constant(np.zeros((), value.dtype.numpy()))
        return self._node("Where", [mine, value, zero], dtype=value.dtype)

    def _to_front(self, value: ir.Value, dims: Dims, axis: int) -> ir.Value:
        """The value with an axis in front. A Reshape copies nothing, and serves where it can."""
        if axis == 0:
            return value
        if begins(dims, axis):
            return self._reshaped(value, [-1, *[1] * axis, *[0] * (len(dims) - axis - 1)])
        order = [axis, *(one for one in range(len(dims)) if one != axis)]
        return self._node("Transpose", [value], perm=order)

    def _back(self, value: ir.Value, dims: Dims, axis: int) -> ir.Value:
        """The value with its first axis in its place again."""
        if axis == 0:
            return value
        if begins(dims, axis):
            return self._reshaped(value, [*[1] * axis, -1, *[0] * (len(dims) - axis - 1)])
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(dims))]
        return self._node("Transpose", [value], perm=order)

    def _reshaped(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """In ONNX, a size of 0 is that of the value itself, and -1 is what is left."""
        return self._node("Reshape", [value, self._indices(*shape)])

    def _all_gather(self, value: ir.Value, dims: Dims, before: Split | Windows) -> ir.Value:
        if value.dtype == ir.DataType.BOOL:
            number = self._node("Cast", [value], ir.DataType.UINT8, to=int(ir.DataType.UINT8))
            whole = self._all_gather(number, dims, before)
            return self._node("Cast", [whole], ir.DataType.BOOL, to=int(ir.DataType.BOOL))
        order = _order(before, fixed(dims[before.axis]) or 0)
        if begins(dims, before.axis) and order == list(range(before.ranks * before.largest)):
            return self._back(self._collective("AllGather", value), dims, before.axis)
        if has_rows(dims, before):
            return self._all_rows(value, dims, before)
        front = self._padded(self._to_front(value, dims, before.axis), len(dims), before)
        gathered = self._collective("AllGather", front)
        if order != list(range(before.ranks * before.largest)):
            gathered = self._node("Gather", [gathered, self._indices(*order)], axis=0)
        return self._back(gathered, dims, before.axis)

    def _all_rows(self, value: ir.Value, dims: Dims, before: Split | Windows) -> ir.Value:
        """The whole image of which each rank has some rows: one part beside the other."""
        size, batch = before.size(self._graph.rank), fixed(dims[0]) or 0
        if not before.even:
            rows = [min(row, size - 1) for row in range(before.largest)]
            value = self._node("Gather", [value, self._indices(*rows)], axis=before.axis)
        gathered = self._collective("AllGather", value)
        pieces, done = [], 0
        for rank in range(before.ranks):
            start, stop = before.intervals(rank)[0]
            cut = {0: (rank * batch, (rank + 1) * batch)}
            if (done, stop) != (start, start + before.largest):
                cut[before.axis] = (done - start, stop - start)
            if stop > done:
                pieces.append(self._slice(gathered, cut))
            done = max(done, stop)
        return self._node("Concat", pieces, axis=before.axis)

    def _padded(self, value: ir.Value, axes: int, before: Split | Windows) -> ir.Value:
        """A part with as many rows as the largest has."""
        missing = before.largest - before.size(self._graph.rank)
        if before.even:
            return value
        pads = self._indices(*[0] * axes, missing, *[0] * (axes - 1))
        return self._node("Pad", [value, pads])

    def _reduce_scatter(
        self, value: ir.Value, dims: Dims, before: Partial, after: Split
    ) -> ir.Value:
        if not after.even:
            return self._part(self._all_reduce(value, before), after)
        front = self._to_front(value, dims, after.axis)
        order = [
            row
            for rank in range(after.ranks)
            for start, stop in after.intervals(rank)
            for row in range(start, stop)
        ]
        if order != list(range(after.length)):
            front = self._node("Gather", [front, self._indices(*order)], axis=0)
        part = self._collective("ReduceScatter", front, reduction=before.reduction)
        return self._back(part, dims, after.axis)

    def _all_to_all(self, value: ir.Value, dims: Dims, before: Split, after: Split) -> ir.Value:
        plain = before.ratios == after.ratios == (1,) and before.axis != after.axis
        if not (plain and before.even and after.even) or value.dtype == ir.DataType.BOOL:
            return self._part(self._all_gather(value, dims, before), after)
        front = self._to_front(value, dims, after.axis)
        exchanged = self._collective("AllToAll", front)
        size = after.size(0)
        blocks = [
            self._slice(exchanged, {0: (p * size, p * size + size)}) for p in range(after.ranks)
        ]
        axis = before.axis + (before.axis < after.axis)
        return self._back(self._node("Concat", blocks, axis=axis), dims, after.axis)

    def _window(self, value: ir.Value, dims: Dims, before: Split, after: Windows) -> ir.Value:
        """This rank's window: elements of its own part, between those of the edges of others."""
        rank, axis, given = self._graph.rank, after.axis, edges(before, after)
        gathered = self._gathered_edges(value, dims, before, given) if any(given) else value
        pieces = []
        for owner in range(after.ranks):
            found = overlap(before, after, owner, rank)
            if found and owner == rank:
                first = found.start - before.bounds[rank]
                whole = len(found) == before.size(rank)
                cut = {axis: (first, first + len(found))}
                pieces.append(value if whole else self._slice(value, cut))
            elif found:
                place, width = given[owner].index(found.start), max(map(len, given))
                rows = range(place, place + len(found))
                pieces.append(self._edge(gathered, dims, axis, owner, rows, width))
        return pieces[0] if len(pieces) == 1 else self._node("Concat", pieces, axis=axis)

    def _gathered_edges(
        self, value: ir.Value, dims: Dims, before: Split, given: Sequence[Sequence[int]]
    ) -> ir.Value:
        """The edges that all ranks give, each as wide as the widest."""
        rank, width = self._graph.rank, max(map(len, given))
        rows = [row - before.bounds[rank] for row in given[rank]]
        chosen = self._indices(*rows, *[0] * (width - len(rows)))
        edge = self._node("Gather", [value, chosen], axis=before.axis)
        if fixed(dims[0]) is None:
            edge = self._to_front(edge, dims, before.axis)
        return self._collective("AllGather", edge)

    def _edge(
        self, gathered: ir.Value, dims: Dims, axis: int, owner: int, rows: range, width: int
    ) -> ir.Value:
        """Some elements of the edge of rank `owner`, which is `width` elements wide."""
        batch = fixed(dims[0])
        if axis == 0 or batch is None:  # axis 0 of what was gathered is that of the elements
            start = owner * width
            found = self._slice(gathered, {0: (start + rows.start, start + rows.stop)})
            return self._back(found, dims, axis)
        cut = {0: (owner * batch, owner * batch + batch)}
        if rows != range(width):
            cut[axis] = (rows.start, rows.stop)
        return self._slice(gathered, cut)


def _order(before: Split | Windows, length: int) -> list[int]:
    """Where each row of the whole axis lies in the gathered, padded parts.

    Of a row that several ranks have, it is that of the first one.
    """
    order = [0] * length
    for rank in reversed(range(before.ranks)):
        at = rank * before.largest
        for start, stop in before.intervals(rank):
            for row in range(start, stop):
                order[row] = at
                at += 1
    return order


def convertible(before: Placement, after: Placement) -> bool:
    """Whether there is a conversion."""
    return before != after and (
        before in (WHOLE, SUM, MAX)
        and not (isinstance(before, Partial) and isinstance(after, Partial))
        or isinstance(before, Split | Windows)
        and not isinstance(after, Partial)
    )
