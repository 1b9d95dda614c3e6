"""Windows over images: data formats, paddings and kernel sizes as ONNX has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from .arguments import integers
from .builder import Builder, OnnxTensor, Value

_LAYOUTS = {0: "NCHW", 1: "NHWC", 14: "NCDHW", 20: "ND"}
_PAD_MODES = {0: "pad", 1: "same", 2: "valid", 3: "full"}


class Padding(TypedDict, total=False):
    """The ONNX attributes of a padding: before all axes and then behind all, or a mode.

    A transposed convolution has the output_padding too.
    """

    pads: Sequence[int]
    auto_pad: str
    output_padding: Sequence[int]


def spatial(value: Value, count: int, what: str) -> tuple[int, ...]:
    """The last `count` of a window's numbers: (1, 1, h, w), (h, w), (n,) and n mean the same."""
    items = integers(value, what)
    return items * count if len(items) == 1 else items[-count:]


def without_ends(window: Value, count: int) -> Value:
    """(1, h, w, 1), the form of windows for channels-last formats, without the last number."""
    return window[:-1] if isinstance(window, tuple) and len(window) == count + 2 else window


def padding(mode: Value, pads: Sequence[int] = ()) -> Padding:
    """ONNX padding attributes from a pad mode and (top, bottom, left, right, ...), known or -1.

    SAME puts the larger half at the end, as TensorFlow does.
    """
    if pads and all(pad >= 0 for pad in pads):
        return {"pads": [*pads[0::2], *pads[1::2]]}
    word = _PAD_MODES.get(mode, str(mode)) if isinstance(mode, int) else str(mode).lower()
    if word == "same":
        return {"auto_pad": "SAME_UPPER"}
    if word == "valid":
        return {"auto_pad": "VALID"}
    raise ValueError(f"the pad mode {word} without known padding is not supported")


def symmetric(value: Value, count: int) -> Padding:
    """The same padding before and behind each axis."""
    pads = spatial(value, count, "the padding")
    return {"pads": [*pads, *pads]}


def layout(value: Value) -> str:
    """A data format as its word."""
    return _LAYOUTS.get(value, str(value)) if isinstance(value, int) else str(value).upper()


def require_channels_first(value: Value) -> None:
    """Raise ValueError for every data format but the channels-first ones."""
    if not layout(value).startswith("NC"):
        raise ValueError(f"the data format {layout(value)} is not supported: export with NCHW")


def is_channels_last(*formats: Value) -> bool:
    """Whether one of the data formats has the channels at the end."""
    return any(layout(value) in ("NHWC", "NDHWC") for value in formats)


def to_channels_first(b: Builder, x: OnnxTensor) -> OnnxTensor:
    """The last axis as the second."""
    result = b.op("Transpose", x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    shape = x.shape or ()
    return OnnxTensor(result.name, x.dtype, (shape[0], shape[-1], *shape[1:-1]))


def to_channels_last(b: Builder, y: OnnxTensor, count: int) -> OnnxTensor:
    """The second axis of a tensor with `count` axes behind it as the last."""
    return b.op("Transpose", y, perm=[0, *range(2, count + 2), 1])
