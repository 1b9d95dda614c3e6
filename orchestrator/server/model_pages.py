"""Pages of models: their metadata, configuration and statistics, as the protocol lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from msgspec import Struct

from ..requests.metrics import HistogramSnapshot, ModelMetrics
from .catalog import PLATFORM, ModelDescription, TensorDescription

_NANOSECONDS = 1e9


class TensorMessage(Struct):
    """One input or output of a model."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class ModelMessage(Struct):
    """Metadata of a model."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: list[TensorMessage]
    outputs: list[TensorMessage]


class Duration(TypedDict):
    """How many requests took how many nanoseconds in all."""

    count: int
    ns: int


class ModelStatistics(TypedDict):
    """Statistics of one model."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: dict[str, Duration]
    batch_stats: list[dict[str, Duration]]


class FullStatistics(ModelStatistics):
    """Statistics of one model with the keys that only REST has."""

    response_stats: dict[str, dict[str, Duration]]
    memory_usage: list[dict[str, int]]


class StatisticsPage(TypedDict):
    """Statistics of one or more models."""

    model_stats: list[FullStatistics]


class PlainTensorConfig(TypedDict):
    """One output, or an input that requests have to give, in a configuration."""

    name: str
    data_type: str
    dims: list[int]


class TensorConfig(PlainTensorConfig, total=False):
    """One input or output in a configuration."""

    optional: bool


class ModelConfig(TypedDict):
    """The configuration of one model, by the names of Triton's ModelConfig."""

    name: str
    platform: str
    backend: str
    max_batch_size: int
    input: list[TensorConfig]
    output: list[TensorConfig]


def metadata(model: ModelDescription) -> ModelMessage:
    """The metadata of a model."""
    return ModelMessage(
        model.name,
        model.versions,
        PLATFORM if model.published is None else model.published.platform,
        [TensorMessage(one.name, one.datatype, one.shape) for one in model.inputs.values()],
        [TensorMessage(one.name, one.datatype, one.shape) for one in model.outputs.values()],
    )


def configuration(model: ModelDescription) -> ModelConfig | dict[str, Any]:
    """How a model is configured, as Triton tells it; without a repository shapes are those of whole
    tensors, so the batch size is 0.
    """
    if model.published is not None:
        from .triton.config_page import config_page  # protobuf takes its time

        return config_page(model.published.config)
    return {
        "name": model.name,
        "platform": "",
        "backend": PLATFORM,
        "max_batch_size": 0,
        "input": [_configured(one) for one in model.inputs.values()],
        "output": [_configured(one) for one in model.outputs.values()],
    }


def statistics(model: ModelDescription, metrics: ModelMetrics, last: int) -> ModelStatistics:
    """The statistics of a model since its start; `last`: when its last request came, in ms."""
    seconds = metrics["seconds"]
    unmeasured: Duration = {"count": seconds["run"]["count"], "ns": 0}
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": last,
        "inference_count": metrics["answered"],
        "execution_count": seconds["run"]["count"],
        "inference_stats": {
            "success": _duration(seconds["total"]),
            "fail": {"count": sum(metrics["failed"].values()), "ns": 0},
            "queue": _duration(seconds["queue"]),
            "compute_input": unmeasured,
            "compute_infer": _duration(seconds["run"]),
            "compute_output": unmeasured,
        },
        "batch_stats": [],
    }


def statistics_page(found: Sequence[ModelStatistics]) -> StatisticsPage:
    """Statistics of models with all keys that REST clients look for: there are no caches, no
    memory is told, and no request has several responses.
    """
    never: Duration = {"count": 0, "ns": 0}
    caches = {"cache_hit": never, "cache_miss": never}
    return {
        "model_stats": [
            {
                **one,
                "inference_stats": {**one["inference_stats"], **caches},
                "response_stats": {},
                "memory_usage": [],
            }
            for one in found
        ]
    }


def _duration(times: HistogramSnapshot) -> Duration:
    return {"count": times["count"], "ns": round(times["sum"] * _NANOSECONDS)}


def _configured(tensor: TensorDescription) -> TensorConfig:
    kind = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
    found: TensorConfig = {
        "name": tensor.name,
        "data_type": f"TYPE_{kind}",
        "dims": list(tensor.shape),
    }
    if tensor.spec.default is not None:
        found["optional"] = True
    return found
