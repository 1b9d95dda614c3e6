"""Primitives that overwrite their first input (`x += y`), and who reads that afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .arguments import number
from .builder import Builder, Tensor, Value
from .math import as_dtype
from .registry import Lower, lowering_of, lowers

# MindSpore's in-place primitives, each with the plain one that computes what is written.
_PLAIN = {
    "InplaceAddExt": "AddExt", "InplaceAddsExt": "AddExt", "InplaceSubExt": "SubExt", "InplaceSubScalar": "SubExt",
    "InplaceMul": "Mul", "InplaceMuls": "Muls", "InplaceDiv": "Div", "InplaceDivs": "Divs", "InplaceDivMod": "DivMod",
    "InplaceDivMods": "DivMods", "InplaceFloorDivide": "FloorDiv", "InplaceFloorDivides": "FloorDivScalar",
    "InplaceRemainderTensorTensor": "RemainderTensorTensor", "InplaceRemainderTensorScalar": "RemainderTensorScalar",
    "InplaceClampScalar": "ClampScalar", "InplaceClampTensor": "ClampTensor", "InplaceAddmm": "Addmm",
    "InplaceMaskedFillTensor": "MaskedFill", "InplaceMaskedFillScalar": "MaskedFillScalar",
    "InplaceScatterSrc": "Scatter", "InplaceScatterAdd": "ScatterAddExt", "InplaceReLU": "ReLU",
    "InplaceSigmoid": "Sigmoid", "InplaceTanh": "Tanh", "InplaceSiLU": "SiLU", "InplaceElu": "Elu",
    "InplaceExp": "Exp", "InplaceLog": "Log", "InplaceFloor": "Floor", "InplaceSign": "Sign",
}
_FILLS = ("InplaceCopy", "InplaceFillScalar", "InplaceFillTensor", "InplaceZero")
IN_PLACE = frozenset((*_PLAIN, *_FILLS, "InplaceHardtanh"))
# What hands a buffer on under another name; every other primitive has a result of its own.
SAME_BUFFER = frozenset(("Depend", "Load", "MakeTuple", "TupleGetItem", *IN_PLACE))


def _overwriting(plain: str) -> Lower:
    def lower(b: Builder, *arguments: Value) -> Value:
        x = b.tensor(arguments[0])
        lowering = lowering_of(plain)
        assert lowering is not None  # a test looks all of them up
        args, keywords = lowering.bind(arguments, {})
        node = b.node
        b.node = replace(node, primitive=plain) if node else None  # some lowerings ask which of theirs they are
        result = lowering.function(b, *args, **keywords)
        b.node = node
        return b.cast(result, x.dtype)

    return lower


for _primitive, _base in _PLAIN.items():
    lowers(_primitive)(_overwriting(_base))


@lowers(*_FILLS)
def fill(b: Builder, input: Value, source: Value = 0, *rest: Value) -> Value:
    """source (a number, or a tensor that is broadcast; 0 for InplaceZero) in every element."""
    x = b.tensor(input)
    return b.op("Expand", as_dtype(b, source, x.dtype), b.op("Shape", x))


@lowers("InplaceHardtanh")
def hardtanh(b: Builder, input: Value, min_val: Value = -1.0, max_val: Value = 1.0) -> Value:
    """input held between two bounds, -1 and 1 by default."""
    x = b.tensor(input)
    bounds = [b.tensor(number(bound, "a bound"), x.dtype) for bound in (min_val, max_val)]
    return b.op("Clip", x, *bounds)


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
