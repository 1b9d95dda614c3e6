"""Fit of tensors: compares the dtypes and shapes that steps of a chain give and take."""

from __future__ import annotations

from ...comm.serving.tensor_spec import TensorSpec


def may_fit(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    """Whether some tensor has both shapes."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a < 0 or b < 0 or a == b for a, b in zip(one, other, strict=True)
    )


def fit(one: TensorSpec, rowed: bool, other: TensorSpec, other_rowed: bool) -> bool:
    """Whether a tensor can be handed on: it has the dtype, and may have the shape.

    Where only one of the two counts rows by dimension 0, a single row may fit, as in Triton.
    """
    if one.dtype != other.dtype:
        return False
    if may_fit(one.shape, other.shape):
        return True
    return rowed != other_rowed and may_fit(_row(one, rowed), _row(other, other_rowed))


def _row(spec: TensorSpec, rowed: bool) -> tuple[int, ...] | None:
    """The shape of one row of a tensor that has rows, of any other the whole one."""
    return spec.shape if spec.shape is None or not rowed else spec.shape[1:]


def shown(spec: TensorSpec) -> str:
    """The dtype and shape of a tensor, for texts."""
    shape = "any shape" if spec.shape is None else f"shape {list(spec.shape)}"
    return f"{spec.dtype} of {shape}"
