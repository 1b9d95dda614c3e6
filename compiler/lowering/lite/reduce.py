"""Reductions of .ms files: ONNX's, over axes that are an input, and the places of extremes."""

from __future__ import annotations

from ...element_types.value_types import TensorType, TupleType
from ..builder import Builder, OnnxTensor, Value, axis_of, integer, integers, lowers
from ..primitives.reduce import reduced
from ..primitives.sort import top_k
from .results import as_mindir, kept

_MODES = {
    "ReduceMean": "ReduceMean",
    "ReduceMax": "ReduceMax",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
    "ReduceSumSquare": "ReduceSumSquare",
    "ReduceASum": "ReduceL1",
    "ReduceL2": "ReduceL2",
}
_LEAST = 1e-5


@lowers("Lite.ReduceFusion")
def reduce(
    b: Builder,
    x: Value,
    axes: Value = (),
    *,
    keep_dims: bool,
    mode: str,
    reduce_to_end: bool,
    coeff: float,
) -> Value:
    """A reduction; with reduce_to_end of all axes from the first on, times a coefficient."""
    tensor = b.tensor(x)
    if reduce_to_end:
        first = axis_of((integers(axes, "the axes") or (0,))[0], tensor.rank)
        axes = tuple(range(first, tensor.rank))
    if mode == "ReduceAll":
        return as_mindir(b, "ReduceAll", tensor, axes, keep_dims)
    y = reduced(b, _MODES[mode], tensor, axes, keep_dims)
    return b.op("Mul", y, coeff) if reduce_to_end and abs(coeff) > _LEAST else y


@lowers("Lite.All")
def all_true(b: Builder, x: Value, axes: Value = (), *, keep_dims: int) -> Value:
    """MindIR's ReduceAll."""
    return as_mindir(b, "ReduceAll", x, axes, bool(keep_dims))


@lowers("Lite.ArgMaxFusion", largest=True)
@lowers("Lite.ArgMinFusion", largest=False)
def arg_extreme(
    b: Builder,
    x: Value,
    *,
    axis: int,
    top_k: int,
    keep_dims: bool,
    out_max_value: bool,
    largest: bool,
) -> Value:
    """The places of the extremes along an axis; then the extremes themselves, or these alone."""
    tensor = b.tensor(x)
    values, places = _extremes(b, tensor, max(top_k, 1), axis, largest)
    if top_k <= 1 and not keep_dims:
        values, places = (b.op("Squeeze", one, (axis,)) for one in (values, places))
    return kept(b, (values, places) if _wants_value(b, out_max_value) else (places, values))


def _extremes(
    b: Builder, x: OnnxTensor, count: int, axis: int, largest: bool
) -> tuple[OnnxTensor, OnnxTensor]:
    return top_k(b, x, count, axis, largest)


def _wants_value(b: Builder, out_max_value: bool) -> bool:
    """Whether the only result is the extreme itself."""
    return out_max_value and not isinstance(b.result_type, TupleType)


@lowers("Lite.TopKFusion")
def top_k_fusion(b: Builder, x: Value, k: Value, *, axis: int) -> Value:
    """The k largest along an axis, and their places. The axis is the one along which the recorded
    result is as long as k: files name it since MindSpore Lite 2 only.
    """
    tensor = b.tensor(x)
    return kept(b, top_k(b, tensor, integer(k, "k"), _axis_of_result(b, tensor, axis), True))


def _axis_of_result(b: Builder, x: OnnxTensor, axis: int) -> int:
    kind = b.result_type
    first = kind.items[0] if isinstance(kind, TupleType) and kind.items else kind
    if not isinstance(first, TensorType) or first.shape is None or x.shape is None:
        return axis or -1
    if len(first.shape) != len(x.shape) or axis:
        return axis or -1
    pairs = enumerate(zip(x.shape, first.shape, strict=True))
    changed = [at for at, (before, after) in pairs if before != after]
    return changed[0] if len(changed) == 1 else -1
