"""Arguments come as numbers, tuples, arrays, enum numbers or words, by the age of the file: here they become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from .builder import Tensor, Value

_LAYOUTS = {0: "NCHW", 1: "NHWC", 14: "NCDHW", 20: "ND"}
_MOST = 1 << 25
_PAD_MODES = {0: "pad", 1: "same", 2: "valid", 3: "full"}


def integers(value: Value, what: str) -> tuple[int, ...]:
    """Constant integers as a tuple; ValueError where they are only known at run time."""
    if value is None:
        return ()
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    items = tuple(item.item() if isinstance(item, (np.ndarray, np.generic)) else item for item in items)
    if not all(isinstance(item, (int, float)) for item in items):
        raise ValueError(f"{what} must be constant")
    return tuple(int(item) for item in items)


def at_run_time(values: Value) -> bool:
    """Whether some number of a tuple is known at run time only."""
    return isinstance(values, tuple) and any(isinstance(item, Tensor) for item in values)


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


def spatial(value: Value, count: int, what: str) -> tuple[int, ...]:
    """The last `count` of a window's numbers: (1, 1, h, w), (h, w), (n,) and n mean the same."""
    items = integers(value, what)
    return items * count if len(items) == 1 else items[-count:]


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis; ValueError where the tensor has none such."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} does not exist in a tensor of {rank} dimensions")
    return axis % rank


def layout(value: Value) -> str:
    """A data format as its word."""
    return _LAYOUTS.get(value, str(value)) if isinstance(value, int) else str(value).upper()


def channels_first(value: Value) -> None:
    """Refuse every data format but the channels-first ones."""
    if not layout(value).startswith("NC"):
        raise ValueError(f"the data format {layout(value)} is not supported: export with NCHW")


def padding(mode: Value, pads: Sequence[int] = ()) -> dict[str, Any]:
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


def dtype_of(value: Value, default: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype that a type argument names, `default` for None."""
    if value is None:
        return default
    return value if isinstance(value, np.dtype) else dtypes.from_type_id(integer(value, "the dtype"))


def moderate(count: int, what: str, most: int = _MOST) -> int:
    """`count`, unless it is negative or a corrupt file's: nothing that large is made while a model is lowered."""
    if not 0 <= count <= most:
        raise ValueError(f"{what} is {count}, expected 0 to {most}")
    return count


def is_number(value: Value) -> bool:
    """Whether a value is a Python number (not a tensor of any kind)."""
    return isinstance(value, (bool, int, float))


def known(x: Tensor, axis: int) -> int:
    """The size of one dimension; ValueError where it is unknown."""
    size: int = x.shape[axis] if x.shape is not None else -1
    if size < 0:
        raise ValueError(f"dimension {axis} must be known when the model is built, and it is not")
    return size
