"""Unused fields of a configuration: tells which have no meaning here; refuses those that change
answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....comm.errors import UsageError
from ..grpc.protocol.model_config import ModelConfig
from .instances import Instances

THREADS = "intra_op_thread_count"
"""The parameter of onnxruntime's backend that has a meaning here."""

_WITHOUT_MEANING = (
    "cc_model_filenames",
    "metric_tags",
    "model_metrics",
    "model_repository_agents",
    "optimization",
    "response_cache",
    "runtime",
)
_OF_GROUPS = ("rate_limiter", "secondary_devices", "profile", "host_policy")


def require_honoured(config: ModelConfig) -> None:
    """Raise UsageError for fields without which the model would give other answers."""
    wrong = {
        "sequence_batching": config.HasField("sequence_batching")
        and "models keep no state between requests",
        "model_transaction_policy": config.model_transaction_policy.decoupled
        and "each request has one answer, and decoupled models have any number",
        "batch_input": bool(config.batch_input) and "inputs come from requests alone",
        "batch_output": bool(config.batch_output) and "outputs come from the model alone",
        "allow_ragged_batch": any(one.allow_ragged_batch for one in config.input)
        and "requests are joined where their shapes are equal",
        "is_shape_tensor": (
            any(one.is_shape_tensor for one in config.input)
            or any(one.is_shape_tensor for one in config.output)
        )
        and "it is for TensorRT",
        "model_operations": bool(config.model_operations.op_library_filename)
        and "libraries with custom operators are not loaded",
    }
    for name, reason in wrong.items():
        if reason:
            raise UsageError(
                f"model '{config.name}': config.pbtxt has {name}, which cannot be honoured: "
                f"{reason}."
            )


def unused(config: ModelConfig, instances: Instances) -> list[str]:
    """The names of fields that are set and have no meaning here."""
    return [*_unused(config), *(["instance_group on the CPU"] if instances.left_out else [])]


def unused_of_ensemble(config: ModelConfig) -> list[str]:
    """These of an ensemble, which has no ranks of its own."""
    honoured = {"name", "platform", "input", "output", "max_batch_size", "version_policy"}
    honoured.add("ensemble_scheduling")
    found = [field.name for field, _ in config.ListFields() if field.name not in honoured]
    if config.ensemble_scheduling.max_inflight_requests:  # the memory of requests has a limit
        found.append("ensemble_scheduling.max_inflight_requests")
    return found


def _unused(config: ModelConfig) -> Iterator[str]:
    for field, value in config.ListFields():
        if field.name in _WITHOUT_MEANING and (field.name != "response_cache" or value.enable):
            yield field.name
    for key in sorted(config.parameters):
        if key != THREADS:
            yield f"parameters '{key}'"
    groups = [name for group in config.instance_group for name in _set_in(group)]
    yield from (f"instance_group.{name}" for name in dict.fromkeys(groups))
    if config.dynamic_batching.preserve_ordering:
        yield "dynamic_batching.preserve_ordering"


def _set_in(group: object) -> list[str]:
    names = [field.name for field, _ in group.ListFields()]  # type: ignore[attr-defined]
    return [name for name in names if name in _OF_GROUPS]
