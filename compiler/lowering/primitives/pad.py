"""Padding of tensors: values added on both sides of axes, or taken away."""

from __future__ import annotations

import numpy as np

from ..builder import START, Builder, OnnxTensor, Value, as_dtype, at_run_time, integers, lowers


def padded(
    b: Builder,
    x: OnnxTensor,
    before: tuple[Value, ...],
    after: tuple[Value, ...],
    axes: tuple[int, ...],
    mode: str = "constant",
    value: Value = None,
) -> OnnxTensor:
    """x with so much added (or, negative, taken away) on both sides of the axes given."""
    fill = as_dtype(b, 0 if value is None else value, x.dtype)
    fill = b.op("Reshape", fill, ()) if fill.shape else fill
    return b.op("Pad", x, before + after, fill if mode == "constant" else None, axes, mode=mode)


@lowers("Pad")
def pad(b: Builder, x: Value, *, paddings: Value) -> Value:
    """Zeros added; `paddings` are (before, after) per axis."""
    tensor = b.tensor(x)
    before, after = tuple(int(p[0]) for p in paddings), tuple(int(p[1]) for p in paddings)
    return padded(b, tensor, before, after, tuple(range(len(before))))


@lowers("MirrorPad")
def mirror_pad(b: Builder, input: Value, paddings: Value, *, mode: str = "REFLECT") -> Value:
    """Mirrored edges, with (SYMMETRIC) or without (REFLECT) the outermost element.

    `paddings` are (before, after) per axis.
    """
    x, rows = b.tensor(input), np.asarray(paddings).reshape(-1, 2)
    if mode.upper() == "REFLECT":
        before, after = (tuple(column.tolist()) for column in rows.T)
        return padded(b, x, before, after, tuple(range(len(rows))), "reflect")
    for axis, (first, last) in enumerate(rows.tolist()):
        x = _mirrored(b, x, axis, first, last)
    return x


def _mirrored(b: Builder, x: OnnxTensor, axis: int, before: int, after: int) -> OnnxTensor:
    parts = [x]
    if before:
        parts.insert(0, b.op("Slice", x, (before - 1,), (START,), (axis,), (-1,)))
    if after:
        parts.append(b.op("Slice", x, (-1,), (-1 - after,), (axis,), (-1,)))
    return x if len(parts) == 1 else b.op("Concat", *parts, axis=axis)


@lowers("PadV3")
def pad_torch(
    b: Builder,
    x: Value,
    paddings: Value,
    value: Value = None,
    *,
    mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Value:
    """Padding from the last axis to the first: (before, after) per axis, or first all befores."""
    numbers = paddings if at_run_time(paddings) else integers(paddings, "the paddings")
    half = len(numbers) // 2
    before, after = (
        (numbers[0::2], numbers[1::2]) if paddings_contiguous else (numbers[:half], numbers[half:])
    )
    how = {"circular": "wrap", "replicate": "edge"}.get(mode, mode)
    return padded(b, b.tensor(x), before, after, tuple(-1 - at for at in range(half)), how, value)


@lowers("ConstantPadND")
def constant_pad(b: Builder, input: Value, padding: Value, value: Value = 0) -> Value:
    """A value added, from the last axis to the first."""
    return pad_torch(b, input, padding, value)


@lowers("ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D", mode="reflect")
@lowers("ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D", mode="edge")
def edge_pad(b: Builder, input: Value, padding: Value, *, mode: str) -> Value:
    """The edges mirrored or repeated, from the last axis to the first."""
    return pad_torch(b, input, padding, mode=mode)
