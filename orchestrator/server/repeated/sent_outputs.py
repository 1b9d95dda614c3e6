"""Sent outputs: those of a request as the bytes that a response has, whichever the protocol."""

from __future__ import annotations

from collections.abc import Sequence

from ....comm.arrays import Array
from ...requests.placed_outputs import PlacedOutputs
from ...requests.request import AnyResult
from ..datatypes import sent_elements

Elements = list[bytes | memoryview]
"""The elements of each output, as bytes."""


def sent_outputs(found: AnyResult, names: Sequence[str]) -> tuple[object, Elements]:
    """The form of outputs, and the elements of those that are asked for, in this order; of a
    request that has ended, and did not ask for every rank's.

    All outputs of one model that have the same form have the same names, dtypes and shapes.
    """
    if isinstance(found, PlacedOutputs):
        return found.layout, [*map(found.elements, names)]
    assert not isinstance(found, list)
    arrays = [found[name] for name in names]
    return tuple([array.shape for array in arrays]), [*map(sent_elements, arrays)]


def wanted_arrays(found: AnyResult, names: Sequence[str]) -> dict[str, Array]:
    """The same outputs as arrays."""
    outputs = found.arrays() if isinstance(found, PlacedOutputs) else found
    assert not isinstance(outputs, list)
    return {name: outputs[name] for name in names}
