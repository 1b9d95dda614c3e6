"""The inputs and outputs of a model: its tuples taken apart, under the names that the user sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...comm.errors import ModelError
from ..mindir.graph import MONAD, Named, OtherType, ScalarType, TensorType, TupleType, ValueType
from .builder import Builder, Tensor, Value
from .tensor import ComplexPair

_MAX_OUTPUTS = 10_000


def model_input(b: Builder, name: str, kind: ValueType, path: str) -> Value:
    """A graph input under the name that the user sees; of a tuple one for each item, NAME_0, NAME_1, ..."""
    if isinstance(kind, TupleType) and kind.items is not None:
        return tuple(model_input(b, f"{name}_{index}", item, path) for index, item in enumerate(kind.items))
    if isinstance(kind, OtherType) and kind.word != "text":
        return MONAD
    if isinstance(kind, ScalarType):
        return Tensor(b.fresh(name), kind.dtype, ())
    if isinstance(kind, TensorType):
        if kind.dtype.kind == "c":
            raise ModelError(f"{path}: input '{name}' is {kind.dtype}, and inputs are real numbers: export a network "
                             f"that takes both parts and joins them with ops.Complex.")
        return Tensor(b.fresh(name), kind.dtype, kind.shape)
    raise ModelError(f"{path}: input '{name}' is no tensor and no tuple of known length, which is not supported.")


def model_outputs(b: Builder, result: Value, kind: ValueType, path: str) -> list[Tensor]:
    """The flattened results as outputs of the ONNX graph, each under its own name."""
    found = []
    for index, (value, item) in enumerate(_flatten(result, kind)):
        if index == _MAX_OUTPUTS:
            raise ModelError(f"{path}: has more than {_MAX_OUTPUTS} results.")
        try:
            found.append(b.output(_output(b, value, item), f"output_{index}"))
        except ValueError as error:
            raise ModelError(f"{path}: result {index} cannot be given out: {error}.") from error
    return found


def _output(b: Builder, value: Value, kind: ValueType) -> Tensor:
    if isinstance(value, (bool, int, float)) and isinstance(kind, (ScalarType, TensorType)):
        value = np.asarray(value, kind.dtype)
    if isinstance(value, ComplexPair):
        raise ValueError("it is complex; export a network that returns ops.Real and ops.Imag of it")
    tensor = b.tensor(value)
    if isinstance(kind, ScalarType):
        return replace(b.cast(tensor, kind.dtype), shape=())
    return tensor


def _flatten(value: Value, kind: ValueType) -> Iterator[tuple[Value, ValueType]]:
    if isinstance(value, tuple):
        items = kind.items if isinstance(kind, TupleType) and kind.items is not None else None
        for index, item in enumerate(value):
            yield from _flatten(item, items[index] if items and index < len(items) else OtherType("none"))
    elif value is not None and value is not MONAD and not isinstance(value, Named):
        yield value, kind
