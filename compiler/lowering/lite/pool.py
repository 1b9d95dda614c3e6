"""Pooling of .ms files: ONNX's MaxPool and AveragePool, channels last; padding is not counted."""

from __future__ import annotations

from ..builder import Builder, Padding, Value, lowers, padding, spatial
from .activation import activated
from .layout import channels_first, channels_last, is_last


@lowers("Lite.MaxPoolFusion", op_type="MaxPool")
@lowers("Lite.AvgPoolFusion", op_type="AveragePool")
def pool(
    b: Builder,
    x: Value,
    *,
    kernel_size: Value,
    strides: Value,
    pad: Value,
    pad_mode: str,
    round_mode: str,
    format: str,
    op_type: str,
    activation_type: str,
    global_: bool,
) -> Value:
    """The largest element or the mean of each window; `global_`: of the whole image."""
    last = is_last(format)
    tensor = channels_first(b, x) if last else b.tensor(x)
    if global_:
        y = b.op(f"Global{op_type}", tensor)
    else:
        y = b.op(
            op_type,
            tensor,
            kernel_shape=spatial(kernel_size, 2, "kernel_size"),
            strides=spatial(strides or 1, 2, "the strides"),
            ceil_mode=int(round_mode == "CEIL"),
            **_pads(pad_mode, pad),
        )
    y = activated(b, y, activation_type)
    return channels_last(b, y) if last else y


def _pads(mode: str, pad: Value) -> Padding:
    return padding("same") if mode == "SAME" else padding("pad", pad or (0, 0, 0, 0))
