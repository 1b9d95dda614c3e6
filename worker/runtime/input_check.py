"""Input check: refuses inputs of a request that do not fit the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import numpy_helper

from ...comm.arrays import Array
from ...comm.errors import InputError
from ..partition.plan import Plan, Signature
from .buffers import small


class InputCheck:
    """Takes the inputs of each request; the dtypes and shapes to compare with are worked out
    once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fixed = [
            (s, s.name, s.value, s.type.dtype, s.type.shape if s.type.known else None, _room(s))
            for s in plan.inputs
        ]

        self._defaults = defaults_of(plan.inputs)

    def add(self, inputs: Mapping[str, Array], values: dict[str, Array]) -> None:
        """Add the inputs to the values of a request; InputError says which does not fit and why."""
        if len(inputs) != len(self._fixed):
            self._refuse_number(inputs)
        for signature, name, value, dtype, shape, room in self._fixed:
            array = inputs.get(name, self._defaults.get(name))
            if array is None or array.dtype != dtype or array.shape != shape:
                array = self._checked(signature, inputs)
            if room is not None:
                np.copyto(room, array)
                values[value] = room
            else:
                flags = array.flags
                values[value] = (
                    array if flags.c_contiguous and flags.aligned else array.copy(order="C")
                )

    def _refuse_number(self, inputs: Mapping[str, Array]) -> None:
        names = [s.name for s in self._plan.inputs]
        unknown = inputs.keys() - set(names)
        if unknown:
            raise InputError(f"{self._plan.path}: has no input '{min(unknown)}', but {names}.")

    def _checked(self, signature: Signature, inputs: Mapping[str, Array]) -> Array:
        """The array of an input whose dimensions are open, or that is wrong."""
        path, expected = self._plan.path, signature.type
        if signature.name not in inputs and signature.name in self._defaults:
            return self._defaults[signature.name]
        if signature.name not in inputs:
            self._refuse_number(inputs)
            raise InputError(
                f"{path}: the input '{signature.name}' is missing; got {list(inputs)}."
            )
        array = inputs[signature.name]
        if array.dtype != expected.dtype:
            raise InputError(
                f"{path}: the input '{signature.name}' is {array.dtype}, expected "
                f"{expected.dtype}: convert it with .astype('{expected.dtype}')."
            )
        if not signature.fits(array.shape):
            raise InputError(
                f"{path}: the input '{signature.name}' has the shape {list(array.shape)}, expected "
                f"{list(expected.shape or ())} (-1: any)."
            )
        return array


def defaults_of(signatures: Sequence[Signature]) -> dict[str, Array]:
    """The arrays of the inputs that a request need not give, by name."""
    return {
        one.name: numpy_helper.to_array(one.default).astype(one.type.dtype, copy=False)
        for one in signatures
        if one.default is not None
    }


def _room(signature: Signature) -> Array | None:
    """The buffer that a small input is copied to; None for others."""
    return (
        np.empty(signature.type.shape or (), signature.type.dtype)
        if small(signature.type)
        else None
    )
