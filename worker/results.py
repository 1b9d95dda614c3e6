"""From the arrays that a program returns to the tensors that a caller gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from ..comm.errors import InputError
from ..comm.tensor import Tensor

Array = NDArray[Any]


def handed_out(results: Mapping[str, Array], outputs: list[Tensor] | None) -> list[Tensor]:
    """The results in the caller's tensors; an empty list gets new ones."""
    given = outputs if outputs is not None else []
    if given and len(given) != len(results):
        raise InputError(f"the model has {len(results)} outputs, got {len(given)} tensors for them.")
    if not given:
        given.extend(Tensor() for _ in results)
    for tensor, (name, array) in zip(given, results.items(), strict=True):
        tensor.receive(name, array)
    return given
