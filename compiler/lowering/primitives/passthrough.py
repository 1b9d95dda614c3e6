"""Passthrough: values handed on without computing, and tuples made and taken apart."""

from __future__ import annotations

from ..builder import Builder, OnnxTensor, Value, as_dtype, lowers, result_dtype


@lowers(
    "Depend",
    "Load",
    "TensorMove",
    "Identity",
    "IdentityN",
    "Contiguous",
    "Clone",
    "Copy",
    "StopGradient",
)
def identity(b: Builder, value: Value, *order: Value) -> Value:
    """The first input; the others only order it behind side effects."""
    return value


@lowers("MakeTuple", "make_list")
def make_tuple(b: Builder, *items: Value) -> Value:
    """A tuple of the inputs."""
    return tuple(items)


@lowers("TupleGetItem", "list_getitem")
def tuple_get_item(b: Builder, items: Value, index: int | OnnxTensor) -> Value:
    """One item of a tuple; where all items are alike, the index may be known at run time only."""
    if not isinstance(items, tuple):
        raise ValueError(f"item {index} is taken of something that is no tuple")
    if isinstance(index, OnnxTensor):
        dtype = result_dtype(b, *items)
        rows = [b.op("Unsqueeze", as_dtype(b, item, dtype), (0,)) for item in items]
        return b.op("Gather", b.op("Concat", *rows, axis=0), index, axis=0)
    if not -len(items) <= index < len(items):
        raise ValueError(f"item {index} is taken of a tuple of {len(items)}")
    return items[index]
