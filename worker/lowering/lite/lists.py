"""Lists of tensors in .ms files, as TensorFlow's loops have them: one tensor, stacked in front."""

from __future__ import annotations

import numpy as np

from ...mindir import dtypes
from ..builder import INT64, Builder, OnnxTensor, Value, integers, lowers
from .shape import numbers


@lowers("Lite.TensorListFromTensor", "Lite.TensorListStack")
def same_elements(b: Builder, elements: Value, shape: Value = None) -> Value:
    """A tensor as the list of what lies along its first axis, or the other way round."""
    return b.tensor(elements)


@lowers("Lite.TensorListReserve")
def reserved(b: Builder, shape: Value, count: Value, *, element_dtype: int) -> Value:
    """A list of so many zeros of one shape."""
    sizes = integers(shape, "the shape of elements")
    if min(sizes, default=0) < 0:
        raise ValueError(
            f"the shape {list(sizes)} of the elements of a list has to be known: convert the model "
            "with fixed shapes"
        )
    most = b.op("Reshape", b.cast(b.tensor(numbers(count, "the count")), INT64), (1,))
    whole = b.op("Concat", most, b.ints(sizes), axis=0) if sizes else most
    return b.op("Expand", np.zeros((), dtypes.from_type_id(element_dtype)), whole)


@lowers("Lite.TensorListGetItem")
def element(b: Builder, elements: Value, index: Value, shape: Value = None) -> Value:
    """One element of a list."""
    return b.op("Gather", b.tensor(elements), _place(b, index, ()), axis=0)


@lowers("Lite.TensorListSetItem")
def with_element(b: Builder, elements: Value, index: Value, item: Value) -> Value:
    """A list with another element at one place."""
    row = b.op("Unsqueeze", b.tensor(item), (0,))
    return b.op("ScatterND", b.tensor(elements), _place(b, index, (1, 1)), row)


def _place(b: Builder, index: Value, shape: tuple[int, ...]) -> OnnxTensor:
    return b.op("Reshape", b.cast(index, INT64), shape)
