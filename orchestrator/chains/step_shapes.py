"""Shapes of a step: a chain has the tensors of its steps as clients of their models see them.

The configuration of a model of a Triton repository may reshape its tensors, and have rows along
dimension 0 or not. A tensor then gets the shape that the next step takes. Nothing but strings is
copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...comm.arrays import Array
from ...comm.errors import InputError, ModelError, RankmeshError
from ...comm.serving.string_tensor import packed_shape, reshaped
from ...comm.serving.tensor_spec import TensorSpec
from ..config.published_model import TensorForm
from ..scheduling.model_interface import ModelInterface
from .chain_plan import ModelTensors

Shape = tuple[int, ...]


def tensors_of(model: ModelInterface) -> ModelTensors:
    """The tensors of a step's model as its clients see them."""
    report, published = model.report, model.published
    if published is None:
        return ModelTensors(report.inputs, report.outputs)
    return ModelTensors(
        _seen(report.inputs, published.inputs),
        _seen(report.outputs, published.outputs),
        published.max_batch,
    )


def _seen(specs: Sequence[TensorSpec], forms: Mapping[str, TensorForm]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(one.name, one.dtype, forms[one.name].shape) for one in specs if one.name in forms
    )


def taken(model: ModelInterface, tensors: Mapping[str, Array]) -> Mapping[str, Array]:
    """The inputs of a step in the shapes of its model. Raises InputError where one cannot be."""
    published = model.published
    if published is None:
        return tensors
    found = {}
    for spec in model.report.inputs:
        array, form = tensors[spec.name], published.inputs[spec.name]
        shape = with_rows(_shape_of(spec, array), form.shape, published.max_batch > 0)
        _fitting(spec, shape, form.shape, InputError)
        found[spec.name] = _with_shape(spec, array, form.for_model(shape))
    return found


def given(model: ModelInterface, outputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The outputs of a step in the shapes that clients of its model expect. Raises ModelError."""
    published = model.published
    if published is None:
        return outputs
    found = {}
    for spec in model.report.outputs:
        form = published.outputs.get(spec.name)
        if form is not None and spec.name in outputs:
            array = outputs[spec.name]
            shape = _fitting(spec, _shape_of(spec, array), form.model_shape, ModelError)
            found[spec.name] = _with_shape(spec, array, form.for_client(shape))
    return found


def ended(spec: TensorSpec, array: Array, rowed: bool) -> Array:
    """An output of a chain in the shape that it declares; `rowed`: with rows along dimension 0."""
    if spec.shape is None:
        return array
    return _with_shape(spec, array, with_rows(_shape_of(spec, array), spec.shape, rowed))


def with_rows(shape: Shape, wanted: Shape, rowed: bool) -> Shape:
    """A shape with or without a dimension 0 for rows, as Triton has it between steps: one row is
    added where a model wants rows and gets none, and left out where it wants none.
    """
    if rowed and len(shape) == len(wanted) - 1:
        return (1, *shape)
    if not rowed and len(shape) == len(wanted) + 1 and shape[0] == 1:
        return shape[1:]
    return shape


def _fitting(spec: TensorSpec, shape: Shape, wanted: Shape, kind: type[RankmeshError]) -> Shape:
    if not TensorSpec(spec.name, spec.dtype, wanted).fits(shape):
        raise kind(f"'{spec.name}' has the shape {list(shape)}, expected {list(wanted)} (-1: any).")
    return shape


def _shape_of(spec: TensorSpec, array: Array) -> Shape:
    return packed_shape(array) if spec.strings else array.shape


def _with_shape(spec: TensorSpec, array: Array, shape: Shape) -> Array:
    if _shape_of(spec, array) == shape:
        return array
    return reshaped(array, shape) if spec.strings else array.reshape(shape)
