"""Catalog of the server: the models it serves, as the Open Inference Protocol describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import msgspec
import numpy as np

from ...comm.errors import InputError
from ...comm.serving.tensor_spec import TensorSpec, dtype_named
from ..config.class_labels import ClassLabels
from ..config.published_model import PublishedModel, TensorForm
from ..requests.loaded_versions import LoadedVersions, NotLoaded
from .datatypes import BYTES, datatype_of
from .faults import UnknownModel
from .model_source import ModelSource

_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 1 << 48
"""The product of all sizes but those of 0: numpy has a limit for arrays without elements, too."""

PLATFORM = "rankmesh"


@dataclass(frozen=True, slots=True)
class TensorDescription:
    """One input or output of a model: its datatype, and its shape (-1: any size)."""

    spec: TensorSpec
    datatype: str
    dtype: np.dtype[Any]
    labels: tuple[str, ...] = ()
    """Of the classes that positions of an output stand for."""

    form: TensorForm | None = None
    """Its other shape in the model; None where it is the same."""

    max_batch: int = 0
    """The most rows along dimension 0; 0: any number."""

    @classmethod
    def of(
        cls,
        spec: TensorSpec,
        labels: tuple[str, ...] = (),
        form: TensorForm | None = None,
        max_batch: int = 0,
    ) -> TensorDescription:
        """The description of an input or output of the model, in the `form` for clients."""
        dtype = dtype_named(spec.dtype)
        if form is not None:
            spec = msgspec.structs.replace(spec, shape=form.shape)
        other = form if form is not None and form.reshaped else None
        return cls(spec, datatype_of(dtype), dtype, labels, other, max_batch)

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self.spec.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as the protocol tells it, which has no word for any number of dimensions."""
        return (-1,) if self.spec.shape is None else self.spec.shape

    @property
    def strings(self) -> bool:
        """Whether its datatype is BYTES."""
        return self.spec.strings

    def require(self, model: str, datatype: str, shape: tuple[int, ...]) -> int | None:
        """How many bytes a tensor of this datatype and shape has, None for any number, of strings;
        InputError where it cannot be this input.
        """
        place = f"{model}: the input '{self.name}'"
        if datatype != self.datatype:
            raise InputError(
                f"{place} has the datatype {_shown(datatype)}, expected {self.datatype}"
                f"{': it takes no BYTES.' if datatype == BYTES else '.'}"
            )
        if min(shape, default=0) < 0 or not self.spec.fits(shape):
            raise InputError(
                f"{place} has the shape {list(shape)}, expected {list(self.shape)} (-1: any)."
            )
        if len(shape) > _MOST_DIMENSIONS or prod(size or 1 for size in shape) > _MOST_ELEMENTS:
            raise InputError(
                f"{place} has the shape {list(shape)}, expected {_MOST_DIMENSIONS} dimensions or "
                f"fewer, and the product of their sizes {_MOST_ELEMENTS} or less."
            )
        if self.max_batch and shape[0] > self.max_batch:
            raise InputError(
                f"{place} has {shape[0]} rows, expected {self.max_batch} or fewer: max_batch_size."
            )
        return None if self.strings else prod(shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """One version of a model: its name, all versions that are loaded, and its inputs and outputs by
    name, in the model's order.
    """

    name: str
    version: str
    versions: tuple[str, ...]
    inputs: dict[str, TensorDescription]
    outputs: dict[str, TensorDescription]
    named: bool = False
    """Whether the request has named the version: it is for no other."""

    published: PublishedModel | None = None
    """Its form in a repository; None: as its file has it."""

    @property
    def has_strings(self) -> bool:
        """Whether an input or output has the datatype BYTES."""
        return any(one.strings for one in (*self.inputs.values(), *self.outputs.values()))

    def input(self, name: str) -> TensorDescription:
        """An input; InputError where there is none of this name."""
        return self._find(self.inputs, "input", name)

    def output(self, name: str) -> TensorDescription:
        """An output, likewise."""
        return self._find(self.outputs, "output", name)

    def require_inputs(self, names: Sequence[str]) -> None:
        """InputError unless these are the model's inputs, each once, in any order; those with a
        default may be left out.
        """
        unique = set(names)
        if len(names) == len(self.inputs) and unique == self.inputs.keys():
            return
        required = {one.name for one in self.inputs.values() if one.spec.default is None}
        if len(unique) != len(names) or not required <= unique <= self.inputs.keys():
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
    """The models of an orchestrator that are loaded, each in one or more versions."""

    def __init__(self, models: ModelSource) -> None:
        """`models` have started."""
        self._models = models
        self._loaded: Mapping[str, LoadedVersions] = {}
        self._found: dict[tuple[str, str], ModelDescription] = {}

    @property
    def models(self) -> dict[str, ModelDescription]:
        """The models in their current versions, by name."""
        return {name: one for (name, version), one in self._look().items() if not version}

    @property
    def versions(self) -> list[ModelDescription]:
        """All versions of all models."""
        return [one for (_, version), one in self._look().items() if version]

    def find(self, name: str, version: str = "") -> ModelDescription:
        """A model, in a version or, with an empty one, in the current one; UnknownModel where it is
        not loaded.
        """
        model = self.found(name, version)
        if model is not None:
            return model
        found = self._look()
        current = found.get((name, ""))
        if current is None:
            known = f"there are {', '.join(self.models)}" if found else "none is loaded"
            raise UnknownModel(f"there is no model '{_shown(name)}': {known}.")
        raise UnknownModel(
            f"{name}: there is no version '{_shown(version)}', but {', '.join(current.versions)}."
        )

    def found(self, name: str, version: str = "") -> ModelDescription | None:
        """A model, likewise; None where it is not loaded."""
        return self._look().get((name, version))

    def versions_of(self, name: str) -> list[ModelDescription]:
        """All versions of a model; UnknownModel where it is not loaded."""
        return [self.find(name, version) for version in self.find(name).versions]

    def _look(self) -> Mapping[tuple[str, str], ModelDescription]:
        """The descriptions by name and version, the current one's also by an empty version."""
        loaded = self._models.versions()
        if loaded is not self._loaded:  # each change makes another mapping
            self._found = {
                key: one
                for name, versions in loaded.items()
                for key, one in _described(self._models, name, versions)
            }
            self._loaded = loaded
        return self._found


def _described(
    models: ModelSource, name: str, versions: LoadedVersions
) -> Iterator[tuple[tuple[str, str], ModelDescription]]:
    for version in versions.all:
        try:
            one = _description(models, name, version, versions)
        except NotLoaded:  # it was unloaded meanwhile
            continue
        yield (name, one.version), one
        if version == versions.current:
            yield (name, ""), replace(one, named=False)


def _description(
    models: ModelSource, name: str, version: int, versions: LoadedVersions
) -> ModelDescription:
    """The description of a version. Raises NotLoaded."""
    published = models.published(name, version)
    labels = models.class_labels(name, version)
    inputs = models.inputs(name, version)
    outputs = models.outputs(name, version)
    return ModelDescription(
        name,
        str(version),
        tuple(map(str, versions.all)),
        {one.name: TensorDescription.of(one) for one in inputs}
        if published is None
        else _in_forms(inputs, {}, published.inputs, published.max_batch),
        {one.name: TensorDescription.of(one, labels.get(one.name, ())) for one in outputs}
        if published is None
        else _in_forms(outputs, labels, published.outputs, published.max_batch),
        named=True,
        published=published,
    )


def _in_forms(
    specs: Sequence[TensorSpec],
    labels: ClassLabels,
    forms: Mapping[str, TensorForm],
    max_batch: int,
) -> dict[str, TensorDescription]:
    """The descriptions of those tensors that have forms, in the order of these."""
    known = {one.name: one for one in specs}
    return {
        name: TensorDescription.of(known[name], labels.get(name, ()), form, max_batch)
        for name, form in forms.items()
    }


def _shown(word: str) -> str:
    """A client's word, short enough for a message."""
    return word if len(word) <= 80 else f"{word[:80]}..."
