"""Probes: the shapes of a model for sizes that tell of each other size what it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from ..source_graph.contrib_node import ContribNode
from ..source_graph.contrib_shapes import DOMAIN
from ..source_graph.open_dimensions import odd_sizes
from ..source_graph.shape_run import ShapeRun
from .attention_pairs import CONTRIBUTED, STANDARD
from .matrix_pairs import MATRICES
from .size_pair import SizePair
from .view_pairs import VIEWS

COUNT = 3
"""The most probes. Two tell a factor; the third one confirms what else a size is made of."""

_LEAST = 211
"""The smallest prime of the larger probes."""

Numbers = tuple[int, ...]
"""A size in each probe."""

_ONNX = {**MATRICES, **VIEWS, **STANDARD}
_CONTRIB = {**MATRICES, **VIEWS, **CONTRIBUTED}


def numbers_of(names: Sequence[str]) -> dict[str, Numbers]:
    """Numbers for each name: small ones in the first probe, primes in the others.

    Tables may have fewer rows than the larger numbers, and cut what takes rows of them: only a size
    that small numbers confirm is a right one.
    """
    small = next(odd_sizes(names, {}))
    found: list[int] = []
    number = _LEAST
    while len(found) < (COUNT - 1) * len(names):
        if all(number % one for one in range(2, int(number**0.5) + 1)):
            found.append(number)
        number += 2
    large = reversed(found[: len(names)]), found[len(names) :]
    return dict(zip(names, zip(small.values(), *large, strict=True), strict=True))


def pairs(
    model: ir.Model, runs: Sequence[ShapeRun]
) -> Iterator[tuple[ir.Node, Sequence[SizePair]]]:
    """Each pair of sizes that a node of the main graph needs to be equal, in all runs.

    Nodes behind one whose inputs do not fit together are left out: what they get is not known.
    """
    clashing = {node for run in runs for node in run.failed if node.op_type != "Gather"}
    unknown: set[str] = set()
    for node in model.graph:
        names = {str(value.name) for value in node.inputs if value is not None}
        if names & unknown or any(run.unsure.touch(node) for run in runs):
            unknown.update(str(value.name) for value in node.outputs)
            continue
        table = _CONTRIB if node.domain == DOMAIN else _ONNX
        if node.op_type in table and node.domain in ("", "ai.onnx", DOMAIN):
            found = [
                list(table[node.op_type](ContribNode(node, run.shapes, run.values))) for run in runs
            ]
            if len({len(one) for one in found}) == 1:
                yield from ((node, some) for some in zip(*found, strict=True))
        if node in clashing:
            unknown.update(str(value.name) for value in node.outputs)


def shape_run(model: ir.Model, probes: Mapping[str, Numbers], number: int) -> ShapeRun:
    """The shapes of all values in one probe."""
    return ShapeRun(model, {name: numbers[number] for name, numbers in probes.items()}, number)
