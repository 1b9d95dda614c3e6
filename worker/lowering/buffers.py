"""Buffers that nodes write over (`x += y`): who reads what was written, and when."""

from __future__ import annotations

import numpy as np

from .builder import Tensor, Value
from .families import FAMILIES

IN_PLACE = frozenset(FAMILIES["inplace"])
"""Primitives that overwrite their first input."""

# What hands a buffer on under another name; every other primitive has a result of its own.
SAME_BUFFER = frozenset(("Depend", "Load", "MakeTuple", "TupleGetItem", *IN_PLACE))


class Overwritten:
    """Which values were overwritten, and by what: ONNX values never change, MindSpore's buffers do.

    A Load hands on a buffer, so reading it after the in-place node gives the new value; MindSpore puts a
    TensorMove where an earlier value is still needed, and that has a name of its own here.
    """

    def __init__(self) -> None:
        self._now: dict[str | int, Value] = {}

    def copy(self) -> Overwritten:
        """The same, to go on with in a branch."""
        other = Overwritten()
        other._now = dict(self._now)
        return other

    def write(self, old: Value, new: Value) -> None:
        """From now on, `new` stands where `old` stood."""
        key = _buffer(old)
        if key is not None and key != _buffer(new):
            self._now[key] = new

    def read(self, value: Value) -> Value:
        """What stands in a value's buffer now."""
        if not self._now:
            return value
        if isinstance(value, tuple):
            return tuple(self.read(item) for item in value)
        while (key := _buffer(value)) in self._now:
            value = self._now[key]
        return value


def _buffer(value: Value) -> str | int | None:
    """What names a value's buffer: the tensor's name, or which array of the file it is."""
    if isinstance(value, Tensor):
        return value.name
    return id(value) if isinstance(value, np.ndarray) else None
