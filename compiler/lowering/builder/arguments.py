"""Arguments of primitives: the forms that files of any age have, as one."""

from __future__ import annotations

import numpy as np

from ...element_types import dtypes
from .tensor import OnnxTensor, Value

_MOST = 1 << 25


def integers(value: Value, what: str) -> tuple[int, ...]:
    """Constant integers as a tuple, () for None; ValueError for run-time numbers."""
    if value is None:
        return ()
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    items = tuple(x.item() if isinstance(x, (np.ndarray, np.generic)) else x for x in items)
    if not all(isinstance(item, (int, float)) for item in items):
        raise ValueError(f"{what} must be constant")
    return tuple(int(item) for item in items)


def integer(value: Value, what: str) -> int:
    """One constant integer."""
    items = integers(value, what)
    if len(items) != 1:
        raise ValueError(f"{what} must be one number, not {len(items)}")
    return items[0]


def number(value: Value, what: str) -> float:
    """One constant number as Python has it."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if not isinstance(value, (int, float)):
        raise ValueError(f"{what} must be a constant number")
    return value


def is_number(value: Value) -> bool:
    """Whether a value is a Python number, not a tensor of any kind."""
    return isinstance(value, (bool, int, float))


def at_run_time(values: Value) -> bool:
    """Whether a number of a tuple is known at run time only."""
    return isinstance(values, tuple) and any(isinstance(item, OnnxTensor) for item in values)


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis; ValueError where a tensor of that rank has none such."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} does not exist in a tensor of {rank} dimensions")
    return axis % rank


def known(x: OnnxTensor, axis: int) -> int:
    """The size of one dimension; ValueError where it is unknown."""
    size = x.shape[axis] if x.shape is not None else -1
    if size < 0:
        raise ValueError(f"dimension {axis} must be known when the model is built, and it is not")
    return size


def dtype_of(value: Value, default: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype that a type argument (a dtype or a MindSpore type id) names, `default` for None."""
    if value is None:
        return default
    return (
        value if isinstance(value, np.dtype) else dtypes.from_type_id(integer(value, "the dtype"))
    )


def moderate(count: int, what: str, most: int = _MOST) -> int:
    """`count`; ValueError where it is negative or larger than `most`, as in a corrupt file."""
    if not 0 <= count <= most:
        raise ValueError(f"{what} is {count}, expected 0 to {most}")
    return count
