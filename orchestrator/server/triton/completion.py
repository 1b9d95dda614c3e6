"""Completion of a configuration: adds what a model's file tells and config.pbtxt does not;
conflicts of the two are errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from ....comm.errors import UsageError
from ..grpc.protocol.model_config import DataType, ModelConfig, ModelInput, ModelOutput
from .model_folder import BACKEND, DEFAULT_FILE, PLATFORM, ModelFolder
from .onnx_signature import OnnxSignature, TensorSignature

DEFAULT_MAX_BATCH = 4
"""Triton's --backend-config=default-max-batch-size."""

_OPEN = -1
ConfiguredT = TypeVar("ConfiguredT", ModelInput, ModelOutput)


def completed(folder: ModelFolder, signature: OnnxSignature) -> ModelConfig:
    """The configuration of a model, with all that the file of one version tells.

    Raises UsageError where the two contradict: it names the tensor, what config.pbtxt has, and
    what the file has.
    """
    config = ModelConfig()
    config.CopyFrom(folder.config)
    config.name, config.platform, config.backend = folder.name, PLATFORM, BACKEND
    config.default_model_filename = config.default_model_filename or DEFAULT_FILE
    if not config.version_policy.WhichOneof("policy_choice"):
        config.version_policy.latest.num_versions = 1
    if not config.input and not config.output and not config.max_batch_size:
        config.max_batch_size = DEFAULT_MAX_BATCH if _may_batch(signature) else 0
    if config.max_batch_size > 1 and not config.WhichOneof("scheduling_choice"):
        config.dynamic_batching.SetInParent()
    tensors = _Tensors(folder, config.max_batch_size)
    inputs = tensors.completed("input", config.input, signature.inputs, ModelInput)
    outputs = tensors.completed("output", config.output, signature.outputs, ModelOutput)
    named = {one.name for one in inputs}
    inputs += [tensors.made(one, ModelInput) for one in signature.inputs if one.name not in named]
    if not outputs:
        outputs = [tensors.made(one, ModelOutput) for one in signature.outputs]
    _replace(config.input, inputs)
    _replace(config.output, outputs)
    return config


def _replace(field: object, tensors: Iterable[ModelInput | ModelOutput]) -> None:
    del field[:]  # type: ignore[attr-defined]  # a repeated field of protobuf
    field.extend(tensors)  # type: ignore[attr-defined]


def _may_batch(signature: OnnxSignature) -> bool:
    """Whether dimension 0 of all inputs and outputs is open."""
    tensors = (*signature.inputs, *signature.outputs)
    return all(one.shape is not None and one.shape[:1] == (_OPEN,) for one in tensors)


class _Tensors:
    """Inputs or outputs of one configuration, beside those of the file."""

    def __init__(self, folder: ModelFolder, max_batch: int) -> None:
        self._where = f"model '{folder.name}': {folder.config_path}"
        self._batch = (_OPEN,) if max_batch else ()
        self._max_batch = max_batch

    def completed(
        self,
        word: str,
        configured: Sequence[ConfiguredT],
        found: Sequence[TensorSignature],
        kind: type[ConfiguredT],
    ) -> list[ConfiguredT]:
        """The tensors that are configured, each with its type and dims."""
        known = {one.name: one for one in found}
        tensors = []
        for one in configured:
            place = f"{self._where}: the {word} '{one.name}'"
            if one.name not in known:
                raise UsageError(f"{place} is none of the file's, which has {list(known)}.")
            tensors.append(self._filled(place, one, known[one.name], kind))
        names = [one.name for one in tensors]
        if len(set(names)) < len(names):
            raise UsageError(f"{self._where}: got the {word}s {names}, expected each once.")
        return tensors

    def made(self, found: TensorSignature, kind: type[ConfiguredT]) -> ConfiguredT:
        """A tensor of the file that is not configured."""
        place = f"{self._where}: '{found.name}'"
        return self._filled(place, kind(name=found.name), found, kind)

    def _filled(
        self, place: str, given: ConfiguredT, found: TensorSignature, kind: type[ConfiguredT]
    ) -> ConfiguredT:
        tensor = kind()
        tensor.CopyFrom(given)
        wanted = cast(DataType, DataType.Value(found.data_type))
        if not tensor.data_type:
            tensor.data_type = wanted
        elif tensor.data_type != wanted:
            got = DataType.Name(tensor.data_type)
            raise UsageError(
                f"{place} has the data_type {got}, and the file has {found.data_type}."
            )
        if found.shape is None:
            return tensor
        if self._batch and found.shape[:1] != self._batch:
            raise UsageError(
                f"{place} has no open first dimension in the file, but the shape "
                f"{list(found.shape)}, and max_batch_size is {self._max_batch}: export the model "
                "with dimension 0 dynamic, or set max_batch_size: 0."
            )
        if not tensor.dims and not tensor.HasField("reshape"):
            tensor.dims.extend(found.shape[len(self._batch) :])
        self._check_shape(place, tensor, found.shape)
        return tensor

    def _check_shape(
        self, place: str, tensor: ModelInput | ModelOutput, found: tuple[int, ...]
    ) -> None:
        reshaped = tensor.HasField("reshape")
        got = (*self._batch, *(tensor.reshape.shape if reshaped else tensor.dims))
        if len(got) != len(found) or any(
            size not in (_OPEN, mine) for size, mine in zip(found, got, strict=True)
        ):
            word = "reshape" if reshaped else "dims"
            batch = " with the batch" if self._batch else ""
            raise UsageError(
                f"{place} has the {word} {list(got)}{batch}, and the file has {list(found)} "
                "(-1: any)."
            )
