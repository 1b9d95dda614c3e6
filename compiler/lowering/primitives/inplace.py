"""In-place primitives: those that overwrite their first input, as in `x += y`."""

from __future__ import annotations

from ..builder import Builder, Value, as_dtype, lowering_of, lowers, lowers_each, number

PLAIN = {
    "InplaceAddExt": "AddExt",
    "InplaceAddsExt": "AddExt",
    "InplaceSubExt": "SubExt",
    "InplaceSubScalar": "SubExt",
    "InplaceMul": "Mul",
    "InplaceMuls": "Muls",
    "InplaceDiv": "Div",
    "InplaceDivs": "Divs",
    "InplaceDivMod": "DivMod",
    "InplaceDivMods": "DivMods",
    "InplaceFloorDivide": "FloorDiv",
    "InplaceFloorDivides": "FloorDivScalar",
    "InplaceRemainderTensorTensor": "RemainderTensorTensor",
    "InplaceRemainderTensorScalar": "RemainderTensorScalar",
    "InplaceClampScalar": "ClampScalar",
    "InplaceClampTensor": "ClampTensor",
    "InplaceAddmm": "Addmm",
    "InplaceMaskedFillTensor": "MaskedFill",
    "InplaceMaskedFillScalar": "MaskedFillScalar",
    "InplaceScatterSrc": "Scatter",
    "InplaceScatterAdd": "ScatterAddExt",
    "InplaceReLU": "ReLU",
    "InplaceSigmoid": "Sigmoid",
    "InplaceTanh": "Tanh",
    "InplaceSiLU": "SiLU",
    "InplaceElu": "Elu",
    "InplaceIndexAddExt": "IndexAddExt",
    "InplaceIndexFillScalar": "IndexFillScalar",
    "InplaceIndexFillTensor": "IndexFillTensor",
    "InplaceScatterValue": "ScatterValue",
    "InplaceThreshold": "Threshold",
    "InplaceErfinv": "Erfinv",
    "InplaceMaskedScatter": "MaskedScatter",
    "InplaceExp": "Exp",
    "InplaceLog": "Log",
    "InplaceFloor": "Floor",
    "InplaceSign": "Sign",
}
"""In-place primitives, each with the plain one that computes what is written."""


@lowers_each("plain", PLAIN)
def overwrite(b: Builder, *arguments: Value, plain: str) -> Value:
    """The result of the plain primitive, in the dtype of the first input."""
    return b.cast(lowering_of(plain).lower(b, arguments), b.tensor(arguments[0]).dtype)


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
