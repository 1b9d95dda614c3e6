"""Translation: a model of a Triton repository as the settings of an orchestrator's model."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ....comm.errors import UsageError
from ....comm.host.resources import gpu_count
from ...config.published_model import PriorityLevels, PublishedModel, RepositoryModel
from ...config.queue_policy import QueuePolicy
from ...config.settings import BatchingSettings
from ..grpc.protocol.model_config import ModelConfig, ModelQueuePolicy
from .completion import completed
from .conventions import priority_of
from .instances import Instances, instances_of
from .model_folder import PLATFORM, ModelFolder
from .onnx_signature import read_signature
from .tensor_forms import forms_of
from .unused_fields import THREADS, require_honoured, unused
from .warmup import samples_of

_MICROSECOND = 1e-6
_USUAL_LIMIT = 1000


def onnx_versions(folder: ModelFolder) -> tuple[list[RepositoryModel], list[str]]:
    """The settings of the versions of an ONNX model, lowest first, and the names of fields that
    have no meaning here.

    Raises UsageError where the configuration or a file is wrong.
    """
    folder.require_onnx()
    require_honoured(folder.config)
    instances = instances_of(folder.config, gpu_count())
    versions = [
        _version(folder, number, path, instances) for number, path in folder.files().items()
    ]
    return versions, unused(folder.config, instances)


def _version(folder: ModelFolder, number: int, path: str, instances: Instances) -> RepositoryModel:
    config = completed(folder, read_signature(path))
    _note_instances(config, instances)
    return RepositoryModel(
        path,
        folder.name,
        version=number,
        replicas=instances.replicas,
        device=instances.device,
        devices=instances.gpus or None,
        threads=_threads(config),
        batching=_batching(config),
        labels=labels_of(folder, config),
        queue=tuple(_queue(config)),
        queue_limit=_queue_limit(config),
        published=published(config, PLATFORM),
        samples=samples_of(folder, config),
    )


def published(config: ModelConfig, platform: str) -> PublishedModel:
    """A model as clients see it, by a complete configuration."""
    dynamic = config.dynamic_batching
    levels = PriorityLevels(dynamic.priority_levels, dynamic.default_priority_level)
    if not levels.sound:
        raise UsageError(
            f"model '{config.name}': got the default_priority_level {levels.default}, expected 1 "
            f"to priority_levels, {levels.count}."
        )
    return PublishedModel(
        platform,
        forms_of(config, config.input),
        forms_of(config, config.output),
        config.max_batch_size,
        config.SerializeToString(deterministic=True),
        levels if dynamic.priority_levels else None,
    )


def _note_instances(config: ModelConfig, instances: Instances) -> None:
    """Write the instances into a configuration that has none."""
    if not config.instance_group:
        kind = "KIND_GPU" if instances.gpus else "KIND_CPU"
        config.instance_group.add(name=config.name, kind=kind, count=1, gpus=instances.gpus)


def _threads(config: ModelConfig) -> int | None:
    """The threads of a rank; None for as many as it has cores."""
    if THREADS not in config.parameters:
        return None
    text = config.parameters[THREADS].string_value
    if not (text.isascii() and text.isdigit()):
        raise UsageError(
            f"model '{config.name}': the parameter {THREADS} is {text!r:.40}, expected a whole "
            "number, 0 for as many as there are cores."
        )
    return int(text) or None


def _batching(config: ModelConfig) -> BatchingSettings | None:
    """The batching of a model with dynamic_batching; one of a single row joins nothing."""
    if config.max_batch_size < 2 or not config.HasField("dynamic_batching"):
        return None
    dynamic = config.dynamic_batching
    return BatchingSettings(
        config.max_batch_size,
        dynamic.max_queue_delay_microseconds * _MICROSECOND,
        preferred=tuple(dynamic.preferred_batch_size),
    )


def _queue(config: ModelConfig) -> Iterator[QueuePolicy]:
    """The policies of a model's queue, by our priorities."""
    dynamic = config.dynamic_batching
    if dynamic.HasField("default_queue_policy"):
        yield _policy(dynamic.default_queue_policy, None)
    for level, policy in sorted(dynamic.priority_queue_policy.items()):
        yield _policy(policy, priority_of(level))


def _policy(policy: ModelQueuePolicy, priority: int | None) -> QueuePolicy:
    return QueuePolicy(
        priority,
        policy.max_queue_size or None,
        policy.default_timeout_microseconds * _MICROSECOND or None,
        policy.timeout_action == ModelQueuePolicy.DELAY,
    )


def _queue_limit(config: ModelConfig) -> int:
    """How many requests may wait: the usual limit, or more where policies allow more."""
    dynamic = config.dynamic_batching
    sizes = [one.max_queue_size for one in dynamic.priority_queue_policy.values()]
    return max(_USUAL_LIMIT, sum(sizes) + dynamic.default_queue_policy.max_queue_size)


def labels_of(folder: ModelFolder, config: ModelConfig) -> dict[str, str] | None:
    """The files with labels of outputs, by name; None where there are none."""
    names = {one.name: one.label_filename for one in config.output if one.label_filename}
    for name in names.values():
        folder.require_below("label_filename", name)
    return {output: os.path.join(folder.path, name) for output, name in names.items()} or None
