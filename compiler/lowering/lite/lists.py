"""Lists of tensors in .ms files, as TensorFlow's loops have them: one tensor, stacked in front.

Arrays of tensors, whose places are constants, are tuples of their elements.
"""

from __future__ import annotations

import numpy as np

from ...element_types import dtypes
from ..builder import INT64, Builder, OnnxTensor, Value, integer, integers, lowers, moderate
from .results import kept
from .shape import numbers

_MOST = 1 << 12  # elements of an array of tensors


@lowers("Lite.TensorListFromTensor", "Lite.TensorListStack")
def same_elements(b: Builder, elements: Value, shape: Value = None) -> Value:
    """A tensor as the list of what lies along its first axis, or the other way round."""
    return b.tensor(elements)


@lowers("Lite.TensorListReserve")
def reserved(b: Builder, shape: Value, count: Value, *, element_dtype: int) -> Value:
    """A list of so many zeros of one shape."""
    sizes = _known_sizes(integers(shape, "the shape of elements"))
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


@lowers("Lite.TensorArray")
def array(b: Builder, size: Value, *, element_shape: Value, data_type: int) -> Value:
    """(an array of zeros, its state): TensorFlow's TensorArrayV3."""
    count = moderate(integer(size, "the size"), "the size of an array of tensors", _MOST)
    shape = _known_sizes(integers(element_shape, "the shape of elements"))
    nothing = b.op("Expand", np.zeros((), dtypes.from_type_id(data_type)), shape)
    return kept(b, ((nothing,) * count, (nothing,) * count))


@lowers("Lite.TensorArrayRead")
def read(b: Builder, handle: Value, index: Value, state: Value) -> Value:
    """The element of a state at one place: TensorArrayReadV3."""
    elements, place = _at(state, index)
    return elements[place]


@lowers("Lite.TensorArrayWrite")
def written(b: Builder, handle: Value, index: Value, value: Value, state: Value) -> Value:
    """A state with another element at one place: TensorArrayWriteV3."""
    elements, place = _at(state, index)
    return (*elements[:place], b.tensor(value), *elements[place + 1 :])


def _at(state: Value, index: Value) -> tuple[tuple[Value, ...], int]:
    """The elements of a state, and a place among them."""
    place = integer(index, "the place in an array of tensors")
    if not isinstance(state, tuple) or not 0 <= place < len(state):
        raise ValueError(f"place {place} is not in the array of tensors: {_size_of(state)}")
    return state, place


def _size_of(state: Value) -> str:
    return f"it has {len(state)}" if isinstance(state, tuple) else "its state is no array"


def _known_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if min(sizes, default=0) < 0:
        raise ValueError(
            f"the shape {list(sizes)} of the elements of a list has to be known: convert the model "
            "with fixed shapes"
        )
    return sizes
