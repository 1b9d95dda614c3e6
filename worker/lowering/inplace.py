"""Primitives that overwrite their first input (`x += y`)."""

from __future__ import annotations

from dataclasses import replace

from .arguments import number
from .builder import Builder, Value
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
    "InplaceIndexAddExt": "IndexAddExt", "InplaceIndexFillScalar": "IndexFillScalar",
    "InplaceIndexFillTensor": "IndexFillTensor", "InplaceScatterValue": "ScatterValue",
    "InplaceThreshold": "Threshold", "InplaceErfinv": "Erfinv", "InplaceMaskedScatter": "MaskedScatter",
    "InplaceExp": "Exp", "InplaceLog": "Log", "InplaceFloor": "Floor", "InplaceSign": "Sign",
}


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


@lowers("InplaceCopy", "InplaceFillScalar", "InplaceFillTensor", "InplaceZero")
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
