"""From the arrays that a program returns to the tensors that a caller gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from ..comm.counted import counted
from ..comm.errors import InputError
from ..comm.tensor import Tensor

Array = NDArray[Any]


def handed_out(results: Mapping[str, Array], outputs: list[Tensor] | None) -> list[Tensor]:
    """The results in the caller's tensors; an empty list gets new ones."""
    if not outputs:
        outputs = [] if outputs is None else outputs
        for name, array in results.items():
            outputs.append(Tensor.of_result(name, array))
        return outputs
    if len(outputs) != len(results):
        raise InputError(f"the model has {counted(len(results), 'output')}, got {counted(len(outputs), 'tensor')} "
                         f"for them.")
    for tensor, (name, array) in zip(outputs, results.items(), strict=True):
        tensor.receive(name, array)
    return outputs
