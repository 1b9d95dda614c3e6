"""Warm-up of a configuration: translates model_warmup into samples that each rank runs."""

from __future__ import annotations

import os
from typing import cast

from ....comm.errors import UsageError
from ....comm.serving.warmup import Fill, WarmupInput, WarmupSample
from ..grpc.protocol.model_config import DataType, ModelConfig, ModelWarmup
from .data_types import dtype_named_by
from .model_folder import ModelFolder
from .tensor_forms import forms_of

_FOLDER = "warmup"
_FILLS = {"zero_data": "zeros", "random_data": "random", "input_data_file": "file"}


def samples_of(folder: ModelFolder, config: ModelConfig) -> tuple[WarmupSample, ...]:
    """The samples of a complete configuration; those with a batch_size of 0 are left out, as Triton
    does.

    Raises UsageError where one does not fit the model.
    """
    samples = [one for one in config.model_warmup if one.batch_size]
    return tuple(_Sample(folder, config, one).translated() for one in samples)


class _Sample:
    """One sample of a configuration."""

    def __init__(self, folder: ModelFolder, config: ModelConfig, sample: ModelWarmup) -> None:
        self._folder = folder
        self._config = config
        self._sample = sample

    def translated(self) -> WarmupSample:
        """The sample as ranks run it."""
        sample, most = self._sample, self._config.max_batch_size or 1
        if sample.batch_size > most:
            raise self._fault(f"has the batch_size {sample.batch_size}, expected {most} or less")
        names = [one.name for one in self._config.input]
        if set(names) != set(sample.inputs):
            raise self._fault(f"has the inputs {sorted(sample.inputs)}, expected {names}")
        return WarmupSample(sample.name, sample.count or 1, tuple(map(self._input, names)))

    def _input(self, name: str) -> WarmupInput:
        given = self._sample.inputs[name]
        (tensor,) = [one for one in self._config.input if one.name == name]
        if given.data_type != tensor.data_type:
            got, wanted = DataType.Name(given.data_type), DataType.Name(tensor.data_type)
            raise self._fault(f"has '{name}' as {got}, expected {wanted}")
        choice = given.WhichOneof("input_data_type")
        if choice is None:
            raise self._fault(f"tells no data of '{name}': expected one of {', '.join(_FILLS)}")
        path = self._path(given.input_data_file) if choice == "input_data_file" else ""
        dtype = dtype_named_by(given.data_type)
        assert dtype is not None  # the file of the model has it
        fill = cast(Fill, _FILLS[choice])
        shape = self._shape(name, tuple(given.dims))
        return WarmupInput(name, dtype, shape, fill, path, self._sample.batch_size)

    def _shape(self, name: str, dims: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an input in the model."""
        form = forms_of(self._config, self._config.input)[name]
        rows = (self._sample.batch_size,) if self._config.max_batch_size else ()
        shape = (*rows, *dims)
        if len(shape) != len(form.shape) or any(
            size < 0 or wanted not in (-1, size)
            for size, wanted in zip(shape, form.shape, strict=True)
        ):
            raise self._fault(
                f"has '{name}' of the shape {list(shape)}, expected {list(form.shape)} (-1: any)"
            )
        return form.for_model(shape)

    def _path(self, name: str) -> str:
        """The path of a file in the model's folder `warmup`."""
        inside = os.path.normpath(name)
        if os.path.isabs(inside) or inside.split(os.sep)[0] in ("..", "."):
            raise self._fault(f"has the file '{name}', expected one in the folder {_FOLDER}")
        self._folder.require_below("input_data_file", os.path.join(_FOLDER, inside))
        return os.path.join(self._folder.path, _FOLDER, inside)

    def _fault(self, text: str) -> UsageError:
        return UsageError(
            f"{self._folder.config_path}: the warm-up sample '{self._sample.name}' {text}."
        )
