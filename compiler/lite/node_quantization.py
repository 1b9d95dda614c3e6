"""Quantisation of nodes: finds the inputs and results of a node that are quantised numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..element_types.value_types import TensorType
from .flatbuffer import Table
from .lite_tensors import LiteTensor, LiteTensors
from .weight_forms import WeightQuantization

_HEAD = "MindSpore Lite "


@dataclass(frozen=True, slots=True)
class Requantization:
    """A conversion between quantised numbers and floats: a primitive and its constant inputs."""

    primitive: str
    arrays: Sequence[NDArray[Any]]
    axis: int = 0


class NodeQuantization:
    """The conversions that the nodes of one file need; its `version` decides axes of channels."""

    def __init__(self, version: str, tensors: LiteTensors) -> None:
        self._version = version_of(version)
        self._tensors = tensors

    def of_input(
        self, primitive: Table, inputs: Sequence[int], place: int
    ) -> Requantization | None:
        """The conversion of an input to floats; None where it has none."""
        tensor = self._tensors[inputs[place]]
        found = tensor.quantization
        if found is None or not isinstance(tensor.type, TensorType):
            return None
        if tensor.type.dtype.kind not in "iu" or not (tensor.extent or _is_short(tensor.type)):
            return None
        if found.clusters:
            return Requantization("Cluster", [np.asarray(found.clusters, np.float32)])
        axis = self._axis(primitive, inputs, place) if len(found.scales) > 1 else 0
        self._check_channels(tensor, found, axis)
        return Requantization("Dequantize", _arrays(found), axis)

    def of_output(self, number: int) -> Requantization | None:
        """The conversion of floats to a result; None where it has none."""
        tensor = self._tensors[number]
        found = tensor.quantization
        if found is None or tensor.extent is not None or not found.scales:
            return None
        if not isinstance(tensor.type, TensorType) or not _is_short(tensor.type):
            return None
        if len(found.scales) > 1:
            raise ValueError(f"tensor '{tensor.name}' has {len(found.scales)} scales, expected one")
        return Requantization("Quantize", _arrays(found)[:2])

    def _check_channels(self, tensor: LiteTensor, found: WeightQuantization, axis: int) -> None:
        shape = tensor.type.shape if isinstance(tensor.type, TensorType) else None
        count = len(found.scales)
        if count > 1 and (shape is None or axis >= len(shape) or shape[axis] != count):
            raise ValueError(
                f"tensor '{tensor.name}' of the shape {list(shape or ())} has {count} scales, "
                f"expected one for each channel of axis {axis}"
            )

    def _axis(self, primitive: Table, inputs: Sequence[int], place: int) -> int:
        """The axis of the channels, as MindSpore Lite's WeightDecoder::GetPreferredDim finds it."""
        rank = len(self._tensors[inputs[place]].shape)
        if primitive.name == "MatMulFusion":
            return self._matmul_axis(primitive, place, rank)
        if self._version < (1, 6):
            return 0
        if primitive.name == "Conv2dTransposeFusion" and self._version >= (1, 8):
            group = primitive["group"]
            depthwise = primitive["in_channel"] == group == primitive["out_channel"]
            return 0 if depthwise else rank - 1
        if primitive.name == "Gather" and len(inputs) > 2:
            return self._gathered_axis(self._tensors[inputs[2]], rank)
        return 0

    def _gathered_axis(self, axis: LiteTensor, rank: int) -> int:
        if axis.extent is None or axis.packed is not None or prod(axis.shape) != 1 or not rank:
            return 0
        return int(axis.array().reshape(-1)[0]) % rank

    def _matmul_axis(self, primitive: Table, place: int, rank: int) -> int:
        transposed = bool(primitive["transpose_a" if place == 0 else "transpose_b"])
        if self._version < (1, 6):  # of matrices only
            first = not transposed if place == 0 else transposed
            return 0 if first else 1
        if place > 1:
            return 0
        return rank - 1 if transposed == (place == 0) else rank - 2


def _is_short(kind: TensorType) -> bool:
    """Whether elements are integers of 8 or 16 bits: others that nodes compute count or index."""
    return kind.dtype.kind in "iu" and kind.dtype.itemsize <= 2


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of `MindSpore Lite 2.3.1`; (0,) for another text."""
    words = text.removeprefix(_HEAD).split(".")
    numbers = [int(word) for word in words if word.isdigit()]
    return tuple(numbers) if text.startswith(_HEAD) and numbers else (0,)


def _arrays(found: WeightQuantization) -> list[NDArray[Any]]:
    """Scales, zero points and offsets; one of each for the whole tensor is a number."""
    arrays = [
        np.asarray(found.scales, np.float32),
        np.asarray(found.zeros, np.int32),
        np.asarray(found.offsets, np.float32),
    ]
    return arrays if len(found.scales) > 1 else [one.reshape(()) for one in arrays]
