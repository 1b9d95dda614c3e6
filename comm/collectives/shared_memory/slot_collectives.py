"""Slot collectives: all kinds but AllReduce, which copy parts between the slots of a group."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ...collective_call import Call, Kind
from ..parts import REDUCERS, Array, as_bytes, expect_parts, flat, fold, spans, split
from ..signature import Signer
from .group_slots import GroupSlots
from .layout import SLOT_BYTES, part_step
from .prepared_round import PREPARED, PreparedRound, prepared

SlotFunction = Callable[[Call, GroupSlots, Signer, Sequence[Array], Sequence[Array]], None]


def all_gather(
    call: Call,
    group: GroupSlots,
    sign: Signer,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    """The arrays of all members, one after the other; those of a gather for the root only.

    Elsewhere the output becomes zeros, in whatever shape it has.
    """
    x, out = inputs[0], outputs[0]
    receiving = call.kind is Kind.ALL_GATHER or group.position == call.root
    if receiving:
        expect_parts(call, out, x, group.size)
        rows = split(as_bytes(out), group.size)
    else:
        out[...] = 0
    source = as_bytes(x)
    signature = sign(x.dtype, x.nbytes)
    for lo, hi in spans(source.size, SLOT_BYTES):
        slots = group.next_slots()
        slots[group.position][: hi - lo] = source[lo:hi]
        group.meet(signature)
        if receiving:
            for row, slot in zip(rows, slots, strict=True):
                row[lo:hi] = slot[: hi - lo]


def reduce_scatter(
    call: Call,
    group: GroupSlots,
    sign: Signer,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    """Each member reduces its own part, in the order of positions."""
    x, out = inputs[0], outputs[0]
    expect_parts(call, x, out, group.size)
    rows, target, me = split(x, group.size), flat(out), group.position
    signature, step = sign(x.dtype, out.nbytes), part_step(group.size, x.itemsize)
    for lo, hi in spans(target.size, step):
        slots = [slot.view(x.dtype) for slot in group.next_slots()]
        for p, row in enumerate(rows):
            slots[me][p * step : p * step + hi - lo] = row[lo:hi]
        group.meet(signature)
        parts = [slot[me * step : me * step + hi - lo] for slot in slots]
        fold(REDUCERS[call.reduction], parts, target[lo:hi])


def all_to_all(
    call: Call,
    group: GroupSlots,
    sign: Signer,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    """Block p of each member goes to member p."""
    x, out = inputs[0], outputs[0]
    expect_parts(call, out, x, 1)
    sources, targets, me = (
        split(as_bytes(x), group.size),
        split(as_bytes(out), group.size),
        group.position,
    )
    signature, step = sign(x.dtype, x.nbytes), part_step(group.size, 1)
    for lo, hi in spans(sources.shape[1], step):
        slots = group.next_slots()
        for p, source in enumerate(sources):
            slots[me][p * step : p * step + hi - lo] = source[lo:hi]
        group.meet(signature)
        for target, slot in zip(targets, slots, strict=True):
            target[lo:hi] = slot[me * step : me * step + hi - lo]


def broadcast(
    call: Call,
    group: GroupSlots,
    sign: Signer,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    """The root's arrays for all members; `outputs` may be `inputs`."""
    sending = group.position == call.root
    for x, out in zip(inputs, outputs, strict=True):
        source, target = as_bytes(x), as_bytes(out)
        signature = sign(out.dtype, out.nbytes)
        for lo, hi in spans(target.size, SLOT_BYTES):
            slot = group.next_slots()[call.root][: hi - lo]
            if sending:
                slot[...] = source[lo:hi]
            group.meet(signature)
            if not sending:
                target[lo:hi] = slot
        if sending and out is not x:
            target[...] = source


def reduce(
    call: Call,
    group: GroupSlots,
    sign: Signer,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    """The reduced array at the root, zeros elsewhere."""
    x, out = inputs[0], outputs[0]
    receiving = group.position == call.root
    if receiving:
        expect_parts(call, out, x, 1)
    else:
        out[...] = 0
    source, target, signature = flat(x), flat(out), sign(x.dtype, x.nbytes)
    for lo, hi in spans(source.size, SLOT_BYTES // x.itemsize):
        slots = [slot.view(x.dtype)[: hi - lo] for slot in group.next_slots()]
        slots[group.position][...] = source[lo:hi]
        group.meet(signature)
        if receiving:
            fold(REDUCERS[call.reduction], slots, target[lo:hi])


def scatter(
    call: Call,
    group: GroupSlots,
    sign: Signer,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> None:
    """Part p of the root's array goes to member p."""
    out, sending = outputs[0], group.position == call.root
    if sending:
        expect_parts(call, inputs[0], out, group.size)
        sources = split(as_bytes(inputs[0]), group.size)
    target, signature, step = as_bytes(out), sign(out.dtype, out.nbytes), part_step(group.size, 1)
    for lo, hi in spans(target.size, step):
        slot = group.next_slots()[call.root]
        if sending:
            for p, source in enumerate(sources):
                slot[p * step : p * step + hi - lo] = source[lo:hi]
        group.meet(signature)
        start = group.position * step
        target[lo:hi] = slot[start : start + hi - lo]


SLOT_COLLECTIVES: dict[Kind, SlotFunction] = {
    Kind.ALL_GATHER: all_gather,
    Kind.GATHER: all_gather,
    Kind.REDUCE_SCATTER: reduce_scatter,
    Kind.ALL_TO_ALL: all_to_all,
    Kind.BROADCAST: broadcast,
    Kind.REDUCE: reduce,
    Kind.SCATTER: scatter,
}


class SlotCollective:
    """One of these collectives of a rank's program."""

    def __init__(self, call: Call, group: GroupSlots) -> None:
        self._call = call
        self._group = group
        self._sign = Signer(call)
        self._exchange = SLOT_COLLECTIVES[call.kind]
        self._last: Sequence[Array] = ()
        self._ready: PreparedRound | None = None

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Carry out the collective."""
        ready, group = self._ready, self._group
        group.begin()
        if ready is not None and inputs[0] is ready.x and outputs[0] is ready.out:
            ready.run(group)
            return
        self._exchange(self._call, group, self._sign, inputs, outputs)
        if self._call.kind in PREPARED:
            self._prepare(inputs, outputs)

    def _prepare(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Prepare the next request if its arrays are likely to be those of the last two."""
        arrays = (inputs[0], outputs[0])
        again = len(self._last) == 2 and all(map(operator.is_, arrays, self._last))
        self._ready = prepared(self._call, self._group, *arrays) if again else None
        self._last = arrays
