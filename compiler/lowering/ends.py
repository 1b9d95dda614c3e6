"""Inputs and outputs of a model: its tuples taken apart, under the names that the user sees."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...comm.errors import ModelError
from ..element_types.value_types import OtherType, ScalarType, TensorType, TupleType, ValueType
from ..mindir.graph import MONAD, NameConstant
from .builder import Builder, ComplexPair, OnnxTensor, Value

_MAX_OUTPUTS = 10_000
OUTPUT_NAMES = "rankmesh.outputs"
"""The key in user_info of the names of a converted model's outputs, a list as JSON."""


def model_input(b: Builder, name: str, kind: ValueType, path: str) -> Value:
    """A graph input of that name; of a tuple one for each item: NAME_0, NAME_1, ..."""
    if isinstance(kind, TupleType) and kind.items is not None:
        items = enumerate(kind.items)
        return tuple(model_input(b, f"{name}_{index}", item, path) for index, item in items)
    if isinstance(kind, OtherType) and kind.word != "text":
        return MONAD
    if isinstance(kind, ScalarType):
        return OnnxTensor(b.fresh(name), kind.dtype, ())
    if not isinstance(kind, TensorType):
        raise ModelError(
            f"{path}: input '{name}' is no tensor and no tuple of known length, which is not "
            f"supported."
        )
    if kind.dtype.kind == "c":
        raise ModelError(
            f"{path}: input '{name}' is {kind.dtype}, and inputs are real numbers: export a "
            f"network that takes both parts and joins them with ops.Complex."
        )
    return OnnxTensor(b.fresh(name), kind.dtype, kind.shape)


def model_outputs(
    b: Builder, result: Value, kind: ValueType, path: str, names: Sequence[str] = ()
) -> list[OnnxTensor]:
    """The flattened results as outputs of the ONNX graph, under their names, or as output_0,
    output_1, ...
    """
    found: list[OnnxTensor] = []
    given: dict[tuple[str, str], OnnxTensor] = {}
    for index, (value, item) in enumerate(_flatten(result, kind)):
        if index == _MAX_OUTPUTS:
            raise ModelError(f"{path}: has more than {_MAX_OUTPUTS} results.")
        try:
            name = names[index] if index < len(names) else f"output_{index}"
            found.append(_named(b, _output(b, value, item), name, given))
        except ValueError as error:
            raise ModelError(f"{path}: result {index} cannot be given out: {error}.") from error
    return found


def output_names(user_info: Mapping[str, str]) -> Sequence[str]:
    """The names of the outputs that a file tells; none where it is not of a conversion."""
    try:
        names = json.loads(user_info.get(OUTPUT_NAMES, "[]"))
    except ValueError:
        return ()
    told = isinstance(names, list) and all(isinstance(one, str) and one for one in names)
    return names if told else ()


def _named(
    b: Builder, tensor: OnnxTensor, name: str, given: dict[tuple[str, str], OnnxTensor]
) -> OnnxTensor:
    """A tensor as the output of that name; adds it to those that were `given` before.

    An input or weight that is handed on keeps its name, as does a value that is given twice.
    """
    key = tensor.name, name
    if key not in given:
        given[key] = tensor if tensor.name == name else b.output(tensor, name)
    return given[key]


def _output(b: Builder, value: Value, kind: ValueType) -> OnnxTensor:
    if isinstance(value, (bool, int, float)) and isinstance(kind, (ScalarType, TensorType)):
        value = np.asarray(value, kind.dtype)
    if isinstance(value, ComplexPair):
        raise ValueError("it is complex; export a network that returns ops.Real and ops.Imag of it")
    tensor = b.tensor(value)
    return replace(b.cast(tensor, kind.dtype), shape=()) if isinstance(kind, ScalarType) else tensor


def _flatten(value: Value, kind: ValueType) -> Iterator[tuple[Value, ValueType]]:
    if isinstance(value, tuple):
        items = kind.items if isinstance(kind, TupleType) and kind.items is not None else ()
        for index, item in enumerate(value):
            yield from _flatten(item, items[index] if index < len(items) else OtherType("none"))
    elif value is not None and value is not MONAD and not isinstance(value, NameConstant):
        yield value, kind
