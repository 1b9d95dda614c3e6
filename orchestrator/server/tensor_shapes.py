"""Tensor shapes: a request's tensors in the shapes of the model, and its outputs in the client's.

They differ where the configuration of a model reshapes them. Nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...comm.arrays import Array
from ...comm.errors import InputError
from ..requests.inputs import Buffers
from .catalog import ModelDescription, TensorDescription


def model_shapes(
    model: ModelDescription, shapes: Mapping[str, tuple[int, ...]]
) -> Mapping[str, tuple[int, ...]]:
    """A client's shapes of inputs, as the model takes them."""
    if model.published is None:
        return shapes
    _require_one_batch(model, shapes)
    return {
        name: shape if (form := model.inputs[name].form) is None else form.for_model(shape)
        for name, shape in shapes.items()
    }


def model_inputs(
    model: ModelDescription, inputs: Mapping[str, Array] | Buffers
) -> Mapping[str, Array] | Buffers:
    """A client's inputs in the shapes of the model, which Buffers have already."""
    if model.published is None or isinstance(inputs, Buffers):
        return inputs
    shapes = model_shapes(model, {name: array.shape for name, array in inputs.items()})
    return {name: array.reshape(shapes[name]) for name, array in inputs.items()}


def client_inputs(
    model: ModelDescription, inputs: Mapping[str, Array] | Buffers
) -> dict[str, Array]:
    """Inputs in the shapes of the client, also of Buffers, for another version of the model."""
    if not isinstance(inputs, Buffers):
        return dict(inputs)
    return {name: _for_client(model.inputs[name], array) for name, array in inputs.items()}


def client_outputs(model: ModelDescription, outputs: dict[str, Array]) -> dict[str, Array]:
    """Outputs of the model in the shapes that clients expect."""
    if model.published is None:
        return outputs
    return {name: _for_client(model.outputs[name], array) for name, array in outputs.items()}


def _for_client(tensor: TensorDescription, array: Array) -> Array:
    form = tensor.form
    return array if form is None else array.reshape(form.for_client(array.shape))


def _require_one_batch(model: ModelDescription, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """InputError where dimension 0 counts rows, and inputs have different numbers of them."""
    assert model.published is not None
    if not model.published.max_batch:
        return
    rows = {name: shape[0] for name, shape in shapes.items()}
    if len(set(rows.values())) > 1:
        raise InputError(f"{model.name}: the inputs have different numbers of rows: {rows}.")
