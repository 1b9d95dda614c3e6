"""Executor options: reads from a Context and a configuration what an executor is asked for."""

from __future__ import annotations

import msgspec

from ...comm.serving.precision_modes import HALF
from ...compiler.model_file.config import Config
from ..api_types.context import Context
from ..executors.settings import (
    ExecutorSettings,
    PrecisionSettings,
    TensorRtSettings,
    asked_compilation,
    asked_executor,
)
from .dynamic_shapes import DynamicShapes


def with_options(
    settings: ExecutorSettings, context: Context, config: Config, precision: PrecisionSettings
) -> ExecutorSettings:
    """The settings with the executor that is asked for, and its options. Raises UsageError."""
    return msgspec.structs.replace(
        settings,
        name=asked_executor(config, settings.device),
        compiles=asked_compilation(config, settings.device),
        tensorrt=asked_tensorrt(context, config, precision),
    )


def asked_tensorrt(
    context: Context, config: Config, precision: PrecisionSettings
) -> TensorRtSettings | None:
    """The engines of TensorRT; None where it is not asked for.

    `provider = tensorrt` in [gpu_context] asks for it, else `context.gpu.provider`. Engines are in
    the folder `serialize_path`, for the shapes in `input_shape`, `dynamic_dims` and `opt_dims`.
    Raises UsageError.
    """
    asked = config.bare("gpu_context", "provider") or str(getattr(context.gpu, "provider", ""))
    if asked.lower() != "tensorrt":
        return None
    shapes = DynamicShapes.of("gpu", config)
    return TensorRtSettings(
        config.bare("gpu_context", "serialize_path"),
        precision.mode == HALF,
        shapes.bounds() if shapes else {},
    )
