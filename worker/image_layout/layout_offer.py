"""Layout offer: has the ranks agree on collectives that move images in onnxruntime's layout.

An AllReduce or an AllGather treats all elements alike. So it may as well move images in the layout
in which they were convolved, if all ranks do. Operands that are made in it then stay in it, and so
do results that are needed in it. Each rank offers its collectives that could. Those that all
members of a group have offered move images so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from onnx import GraphProto

from ...comm.collective_call import Kind
from ...compiler.element_types.value_types import TensorType
from ..partition.plan import CollectiveStep, Plan
from .image_rows import LAYOUT_DOMAIN, OUT_OF, ImageRows, block_of

_KINDS = (Kind.ALL_REDUCE, Kind.ALL_GATHER)
_IMAGE_AXES = 4


class OfferedCall(msgspec.Struct, frozen=True):
    """An AllReduce or AllGather among `ranks`, and whether it could move images in the layout."""

    ranks: tuple[int, ...]
    offered: bool


class LayoutOffer(msgspec.Struct, frozen=True):
    """The calls of a rank, in order; its layout has `block` channels side by side."""

    block: int = 0
    calls: tuple[OfferedCall, ...] = ()


def layout_offer(graph: GraphProto, plan: Plan) -> LayoutOffer:
    """The offer of a rank, whose optimized segments are `graph`."""
    block = block_of(graph)
    makers = {name: node for node in graph.node for name in node.output}
    rows, outside = ImageRows(graph, block, {}), _outside(plan)

    def offered(step: CollectiveStep) -> bool:
        (operand,), (result,) = step.inputs, step.outputs
        maker = makers.get(operand)
        if maker is None:  # a weight or an input
            return False
        kinds = plan.types[operand], plan.types[result]
        return (
            (maker.domain, maker.op_type) == (LAYOUT_DOMAIN, OUT_OF)
            and not any(one.name == "channels_last" and one.i for one in maker.attribute)
            and all(_is_blocked(kind, block) for kind in kinds)
            and result not in outside
            and rows.takes_layout(result)
        )

    calls = [
        OfferedCall(step.call.group.ranks, block > 0 and offered(step)) for step in _steps(plan)
    ]
    return LayoutOffer(block, tuple(calls))


def agreed_steps(plan: Plan, rank: int, offers: Sequence[LayoutOffer]) -> list[CollectiveStep]:
    """The collectives of `rank`, whose plan is `plan`, that all their members have offered."""
    sequences = [_by_group(one) for one in offers]
    passed: dict[tuple[int, ...], int] = defaultdict(int)
    found = []
    for step in _steps(plan):
        ranks = step.call.group.ranks
        at = passed[ranks]
        passed[ranks] += 1
        blocks = {offers[one].block for one in ranks}
        if len(blocks) == 1 and all(
            at < len(sequences[one][ranks]) and sequences[one][ranks][at] for one in ranks
        ):
            found.append(step)
    return found


def _outside(plan: Plan) -> set[str]:
    """The values that collectives or callers take, and not only segments: such as what a stage
    sends to the next one.
    """
    taken = {name for step in plan.collectives for name in step.inputs}
    return taken | {one.value for one in plan.outputs}


def _steps(plan: Plan) -> Iterator[CollectiveStep]:
    return (one for one in plan.collectives if one.call.kind in _KINDS)


def _by_group(offer: LayoutOffer) -> dict[tuple[int, ...], list[bool]]:
    """Whether each call of a group was offered, in the order in which all members make them."""
    found: dict[tuple[int, ...], list[bool]] = defaultdict(list)
    for one in offer.calls:
        found[one.ranks].append(one.offered)
    return found


def _is_blocked(kind: TensorType, block: int) -> bool:
    """Whether a value is an image whose channels fill the layout."""
    shape = kind.shape or ()
    is_image = kind.known and len(shape) == _IMAGE_AXES and kind.dtype == np.float32
    return is_image and shape[1] % block == 0
