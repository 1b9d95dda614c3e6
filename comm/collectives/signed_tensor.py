"""Signed tensor: the properties of a tensor that the signature of a collective has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import torch


class SignedTensor(NamedTuple):
    """A tensor as signatures describe it: its dtype, as numpy has it, and its size in bytes."""

    dtype: np.dtype[Any]
    nbytes: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> SignedTensor:
        """The form of a tensor; numpy has bfloat16 as two bytes."""
        name = str(tensor.dtype).removeprefix("torch.")
        return cls(np.dtype("V2" if name == "bfloat16" else name), tensor.nbytes)
