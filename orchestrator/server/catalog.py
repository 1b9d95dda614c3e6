"""Catalog of the server: the models it serves, as the Open Inference Protocol describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...comm.errors import InputError
from ...comm.serving.tensor_spec import TensorSpec, dtype_named
from ..orchestrator import Orchestrator
from .datatypes import BYTES, datatype_of
from .faults import UnknownModel

VERSION = "1"
"""The only version of each model."""

PLATFORM = "rankmesh"


@dataclass(frozen=True, slots=True)
class TensorDescription:
    """One input or output of a model: its datatype, and its shape (-1: any size)."""

    spec: TensorSpec
    datatype: str
    dtype: np.dtype[Any]
    labels: tuple[str, ...] = ()
    """Of the classes that positions of an output stand for."""

    @classmethod
    def of(cls, spec: TensorSpec, labels: tuple[str, ...] = ()) -> TensorDescription:
        """The description of an input or output."""
        dtype = dtype_named(spec.dtype)
        return cls(spec, datatype_of(dtype), dtype, labels)

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self.spec.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as the protocol tells it, which has no word for any number of dimensions."""
        return (-1,) if self.spec.shape is None else self.spec.shape

    def require(self, model: str, datatype: str, shape: tuple[int, ...]) -> int:
        """How many bytes a tensor of this datatype and shape has; InputError where it cannot be
        this input.
        """
        place = f"{model}: the input '{self.name}'"
        if datatype != self.datatype:
            raise InputError(
                f"{place} has the datatype {_shown(datatype)}, expected {self.datatype}"
                f"{': no input of this model takes BYTES.' if datatype == BYTES else '.'}"
            )
        if min(shape, default=0) < 0 or not self.spec.fits(shape):
            raise InputError(
                f"{place} has the shape {list(shape)}, expected {list(self.shape)} (-1: any)."
            )
        return prod(shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """One model: its name, its versions, and its inputs and outputs by name, in the model's
    order.
    """

    name: str
    versions: tuple[str, ...]
    inputs: dict[str, TensorDescription]
    outputs: dict[str, TensorDescription]

    def input(self, name: str) -> TensorDescription:
        """An input; InputError where there is none of this name."""
        return self._find(self.inputs, "input", name)

    def output(self, name: str) -> TensorDescription:
        """An output, likewise."""
        return self._find(self.outputs, "output", name)

    def require_inputs(self, names: Sequence[str]) -> None:
        """InputError unless these are the model's inputs, each once, in any order."""
        if len(names) != len(self.inputs) or set(names) != self.inputs.keys():
            given = [_shown(name) for name in names]
            raise InputError(
                f"{self.name}: got the inputs {given}, expected {list(self.inputs)}, each once."
            )

    def _find(
        self, tensors: dict[str, TensorDescription], kind: str, name: str
    ) -> TensorDescription:
        try:
            return tensors[name]
        except KeyError:
            raise InputError(
                f"{self.name}: has no {kind} '{_shown(name)}', but {list(tensors)}."
            ) from None


class ModelCatalog:
    """The models of an orchestrator by name. They stay the same for its life."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        """`orchestrator` has started."""
        self.models: dict[str, ModelDescription] = {
            name: _described(orchestrator, name) for name in orchestrator.models()
        }

    def find(self, name: str, version: str = "") -> ModelDescription:
        """A model, in a version or, with an empty one, in that of choice; UnknownModel where it is
        not served.
        """
        model = self.models.get(name)
        if model is None:
            raise UnknownModel(
                f"there is no model '{_shown(name)}': there are {', '.join(self.models)}."
            )
        if version and version not in model.versions:
            raise UnknownModel(
                f"{name}: there is no version '{_shown(version)}', but {', '.join(model.versions)}."
            )
        return model


def _described(orchestrator: Orchestrator, name: str) -> ModelDescription:
    outputs, labels = orchestrator.outputs(name), orchestrator.class_labels(name)
    return ModelDescription(
        name,
        (VERSION,),
        {spec.name: TensorDescription.of(spec) for spec in orchestrator.inputs(name)},
        {spec.name: TensorDescription.of(spec, labels.get(spec.name, ())) for spec in outputs},
    )


def _shown(word: str) -> str:
    """A client's word, short enough for a message."""
    return word if len(word) <= 80 else f"{word[:80]}..."
