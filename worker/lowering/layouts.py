"""Where the channels are: moved behind the batch for onnxruntime, and back."""

from __future__ import annotations

from .arguments import layout
from .builder import Builder, Tensor, Value


def channels_last(*formats: Value) -> bool:
    """Whether a data format has the channels at the end."""
    return any(layout(value) in ("NHWC", "NDHWC") for value in formats)


def middle(window: Value, count: int) -> Value:
    """(1, h, w, 1), as windows are written where the channels are last, without the last number."""
    return window[:-1] if isinstance(window, tuple) and len(window) == count + 2 else window


def to_first(b: Builder, x: Tensor) -> Tensor:
    """The last axis as the second."""
    result: Tensor = b.op("Transpose", x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    shape = x.shape or ()
    return Tensor(result.name, x.dtype, (shape[0], shape[-1], *shape[1:-1]))


def to_last(b: Builder, y: Tensor, count: int) -> Tensor:
    """The second axis of a tensor with `count` axes behind it as the last."""
    result: Tensor = b.op("Transpose", y, perm=[0, *range(2, count + 2), 1])
    return result
