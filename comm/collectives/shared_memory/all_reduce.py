"""AllReduce over slots: the collective of tensor parallelism, with a lean short path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...collective_call import Call
from ..parts import REDUCERS, Array, flat, fold, spans
from ..signature import sign
from .group_slots import GroupSlots
from .layout import SLOT_BYTES

_SHARED_OUT_BYTES = 16 * 1024
"""From this size on, each of more than two members reduces a part, not everything."""

_ALIGNED = 64


class AllReduce:
    """One AllReduce of a rank's program.

    Two members add the other's slot to their own array. More members reduce 1/n each, in the order
    of positions, and meet again to copy the rest. Either way all members get the same bits.
    """

    def __init__(self, call: Call, group: GroupSlots) -> None:
        self._call = call
        self._group = group
        self._reduce = REDUCERS[call.reduction]
        self._pair = group.size == 2
        self._first = group.position == 0
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] | None = None

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Reduce `inputs[0]` into `outputs[0]`, which may be the same array."""
        x, out = inputs[0], outputs[0]
        self._group.begin()
        if x.shape != self._shape or x.dtype != self._dtype or out.shape != x.shape:
            self._fit(x, out)
        if not self._whole:
            self._meet_in_rounds(flat(x), flat(out))
        elif self._pair:
            self._meet_in_pair(x, out)
        else:
            self._meet_once(x, out)

    def _fit(self, x: Array, out: Array) -> None:
        """Prepare the views for arrays of this shape and type."""
        if (out.shape, out.dtype) != (x.shape, x.dtype):
            raise ValueError(f"AllReduce of {x.dtype}{x.shape} cannot fill {out.dtype}{out.shape}")
        self._shape = x.shape
        self._dtype = x.dtype
        self._signature = sign(self._call, x.dtype, x.nbytes)
        self._whole = x.nbytes <= SLOT_BYTES if self._pair else x.nbytes < _SHARED_OUT_BYTES
        slots = self._group.slots
        self._typed = [[slot.view(x.dtype) for slot in side] for side in slots]
        if self._whole:
            self._views = [
                [slot[: x.size].reshape(x.shape) for slot in side] for side in self._typed
            ]

    def _meet_once(self, x: Array, out: Array) -> None:
        group = self._group
        views = self._views[group.turn + 1 & 1]
        views[group.position][...] = x
        group.meet(self._signature)
        fold(self._reduce, views, out)

    def _meet_in_pair(self, x: Array, out: Array) -> None:
        group = self._group
        left, right = self._views[group.turn + 1 & 1]
        if self._first:
            left[...] = x
            group.meet(self._signature)
            self._reduce(x, right, out=out)
        else:
            right[...] = x
            group.meet(self._signature)
            self._reduce(left, x, out=out)

    def _meet_in_rounds(self, x: Array, out: Array) -> None:
        for lo, hi in spans(x.size, SLOT_BYTES // x.itemsize):
            slots = self._typed[self._group.turn + 1 & 1]
            slots[self._group.position][: hi - lo] = x[lo:hi]
            self._group.meet(self._signature)
            if self._pair:
                fold(self._reduce, [slot[: hi - lo] for slot in slots], out[lo:hi])
            else:
                self._share_out(slots, out[lo:hi])

    def _share_out(self, slots: Sequence[Array], out: Array) -> None:
        """Reduce a part of the slots, and collect the parts of all members in a second round."""
        group = self._group
        results = self._typed[group.turn + 1 & 1]
        line = _ALIGNED // out.itemsize
        step = -(-out.size // (group.size * line)) * line
        parts = [slice(p * step, min((p + 1) * step, out.size)) for p in range(group.size)]
        mine = parts[group.position]
        fold(self._reduce, [slot[mine] for slot in slots], results[group.position][mine])
        group.meet(self._signature)
        for part, result in zip(parts, results, strict=True):
            out[part] = result[part]
