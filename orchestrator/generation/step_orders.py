"""Step orders: tell ranks the new tokens of planned rows."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from itertools import accumulate

from ...comm.serving.steps import DecoderStep
from .sequence import Sequence
from .step_planner import PlannedRow


def step_order(
    running: Mapping[int, Sequence],
    rows: Items[PlannedRow],
    wanted: Items[PlannedRow],
    logits: int,
    parity: int,
    rooms: tuple[int, ...],
) -> DecoderStep:
    """The order of planned `rows` of the sequences that are `running`, by slot.

    The next tokens of the `wanted` ones are asked for, of the first `logits` of them with all
    logits. A sequence that rests is in the order without new tokens: ranks carry its kept row on to
    the next step.
    """
    counts = {row.sequence.slot: row.count for row in rows}
    slots = sorted(running)
    parts = [running[slot].part(counts.get(slot, 0)) for slot in slots]
    ends = dict(zip(slots, accumulate(map(len, parts)), strict=True))
    return DecoderStep.of(
        slots,
        [running[slot].length for slot in slots],
        parts,
        [ends[row.sequence.slot] - 1 for row in wanted],
        logits,
        parity,
        rooms,
    )
