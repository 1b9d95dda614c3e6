"""Tensor forms: dims and reshape of a configuration as the shapes that clients and models see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ....comm.errors import UsageError
from ...config.published_model import TensorForm
from ..grpc.protocol.model_config import ModelConfig, ModelInput, ModelOutput


def forms_of(
    config: ModelConfig, tensors: Iterable[ModelInput | ModelOutput]
) -> dict[str, TensorForm]:
    """The forms of a configuration's inputs or outputs, by name.

    Raises UsageError where a reshape has not as many elements as the dims.
    """
    return {one.name: _form(config, one) for one in tensors}


def _form(config: ModelConfig, tensor: ModelInput | ModelOutput) -> TensorForm:
    batch = (-1,) if config.max_batch_size else ()
    dims = tuple(tensor.dims)
    if not tensor.HasField("reshape"):
        return TensorForm((*batch, *dims), (*batch, *dims))
    reshape = tuple(tensor.reshape.shape)
    if _products(dims) != _products(reshape):
        raise UsageError(
            f"model '{config.name}': '{tensor.name}' has the dims {list(dims)} and the reshape "
            f"{list(reshape)}: expected as many elements in both, also between open sizes (-1)."
        )
    return TensorForm((*batch, *dims), (*batch, *reshape))


def _products(shape: Sequence[int]) -> list[int]:
    """The elements before, between and behind open sizes."""
    runs: list[list[int]] = [[]]
    for size in shape:
        if size < 0:
            runs.append([])
        else:
            runs[-1].append(size)
    return [prod(run) for run in runs]
