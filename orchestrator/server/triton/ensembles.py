"""Ensembles: a model of a Triton repository whose steps are other models, as a chain."""

from __future__ import annotations

from collections.abc import Iterable

from ....comm.errors import UsageError
from ....comm.serving.tensor_spec import TensorSpec
from ...config.chain_settings import StepSettings
from ...config.published_model import RepositoryChain
from ..grpc.protocol.model_config import (
    DataType,
    ModelConfig,
    ModelEnsembling,
    ModelInput,
    ModelOutput,
)
from .data_types import dtype_named_by
from .model_folder import ENSEMBLE, ModelFolder
from .translation import labels_of, published
from .unused_fields import unused_of_ensemble


def ensemble_versions(folder: ModelFolder) -> tuple[list[RepositoryChain], list[str]]:
    """The settings of the versions of an ensemble, which differ in their numbers only, and the
    names of fields that have no meaning here.

    Raises UsageError where the configuration is wrong.
    """
    config = ModelConfig()
    config.CopyFrom(folder.config)
    config.name, config.platform = folder.name, ENSEMBLE
    if not config.version_policy.WhichOneof("policy_choice"):
        config.version_policy.latest.num_versions = 1
    versions = [_chain(folder, config, number) for number in folder.versions()]
    return versions, unused_of_ensemble(config)


def _chain(folder: ModelFolder, config: ModelConfig, number: int) -> RepositoryChain:
    return RepositoryChain(
        folder.name,
        tuple(_step(folder, step) for step in config.ensemble_scheduling.step),
        inputs=tuple(one.name for one in config.input),
        outputs=tuple(one.name for one in config.output),
        labels=labels_of(folder, config),
        number=number,
        published=published(config, ENSEMBLE),
        tensors=(*_specs(folder, config, config.input), *_specs(folder, config, config.output)),
    )


def _step(folder: ModelFolder, step: ModelEnsembling.Step) -> StepSettings:
    """A step; a negative version is the current one."""
    if not step.model_name or not step.input_map or not step.output_map:
        raise UsageError(
            f"{folder.config_path}: a step of ensemble_scheduling has the model_name "
            f"'{step.model_name}', {len(step.input_map)} in its input_map and "
            f"{len(step.output_map)} in its output_map: expected all three."
        )
    version = step.model_version if step.model_version > 0 else None
    return StepSettings(step.model_name, dict(step.input_map), dict(step.output_map), version)


def _specs(
    folder: ModelFolder, config: ModelConfig, tensors: Iterable[ModelInput | ModelOutput]
) -> list[TensorSpec]:
    """Inputs or outputs as the configuration declares them, in the shapes of the steps."""
    batch = (-1,) if config.max_batch_size else ()
    found = []
    for one in tensors:
        dtype = dtype_named_by(one.data_type)
        if dtype is None or not (one.dims or one.HasField("reshape")):
            raise UsageError(
                f"{folder.config_path}: '{one.name}' of an ensemble has the data_type "
                f"{DataType.Name(one.data_type)} and the dims {list(one.dims)}: expected both."
            )
        dims = one.reshape.shape if one.HasField("reshape") else one.dims
        found.append(TensorSpec(one.name, dtype, (*batch, *dims)))
    if not found:
        raise UsageError(f"{folder.config_path}: an ensemble needs `input` and `output`.")
    return found
