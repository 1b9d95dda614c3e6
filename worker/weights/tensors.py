"""Weights from Tensors that a script passes, for an update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ...comm.arguments import check_elements, check_type
from ...comm.counted import counted
from ...comm.errors import InputError
from ...comm.tensor import Tensor
from .names import WeightNames

Array = NDArray[Any]


def check_weights(weights: object) -> None:
    """TypeError, in the words of MindSpore Lite, unless `weights` is a list of lists of Tensors."""
    check_type("weights", weights, list)
    for weight in weights:  # type: ignore[attr-defined]
        check_type("weight", weight, list)
        check_elements("weights", weight, Tensor, "Tensor")


def weights_of_tensors(weights: Sequence[Sequence[Tensor]], names: WeightNames) -> dict[str, Array]:
    """The arrays of successive updates, by the plan's names; of two for one weight the last counts."""
    found: dict[str, Array] = {}
    for tensors in weights:
        found.update(_named(tensors, names))
    if not found:
        raise InputError("got no tensors to update weights with.")
    return found


def _named(tensors: Sequence[Tensor], names: WeightNames) -> dict[str, Array]:
    """By name; tensors none of which has one stand for the listed weights, if they are as many."""
    if tensors and not any(tensor.name for tensor in tensors):
        if len(tensors) != len(names.listed):
            raise InputError(f"got {counted(len(tensors), 'tensor')} without a name, and variable_weights_file lists "
                             f"{counted(len(names.listed), 'weight')}: set Tensor.name to the weight's.")
        return {name: _array(tensor, name) for tensor, name in zip(tensors, names.listed, strict=True)}
    found: dict[str, Array] = {}
    for tensor in tensors:
        name = names.find(tensor.name)
        if name in found:
            raise InputError(f"two tensors of one update are for the weight '{name}', the second is '{tensor.name}'.")
        found[name] = _array(tensor, tensor.name)
    return found


def _array(tensor: Tensor, name: str) -> Array:
    array = tensor.data()
    if array is None:
        raise InputError(f"the tensor for '{name}' never got any data: call set_data_from_numpy.")
    return array
