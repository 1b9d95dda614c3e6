"""Providers of onnxruntime: their options, which need no GPU to be looked at."""

from __future__ import annotations

from typing import Any

import pytest

from rankmesh import Context, UsageError
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.executors.providers import chosen_providers, for_session, tensorrt_options
from rankmesh.worker.executors.settings import PrecisionSettings, TensorRtSettings
from rankmesh.worker.session.executor_options import asked_tensorrt

pytestmark = pytest.mark.pure
_CUDA, _TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
_CPU = "CPUExecutionProvider"


_PRESENT = [_CUDA, _CPU]


def test_products_on_a_gpu_are_exact_unless_tf32_is_asked_for() -> None:
    for tf32, text in ((False, "0"), (True, "1")):
        options = {"device_id": "2", "use_tf32": text}
        assert chosen_providers("gpu", 2, _PRESENT, tf32) == [(_CUDA, options), _CPU]
    assert chosen_providers("cpu", 0, _PRESENT, True) == [_CPU]


def test_tensorrt_comes_first_where_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    settings = TensorRtSettings("/engines", half=True)
    for _ in range(2):
        assert [one[0] for one in chosen_providers("gpu", 0, _PRESENT, False, settings)[:1]] == [
            _CUDA
        ]
    assert caplog.text.count("CUDA computes instead of TensorRT") == 1
    there = [*_PRESENT, _TENSORRT]
    (first, options), (second, _), _ = chosen_providers("gpu", 0, there, False, settings)
    assert (first, second) == (_TENSORRT, _CUDA)
    assert options == {
        "device_id": "0",
        "trt_fp16_enable": "1",
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": "/engines",
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": "/engines",
    }


def _asked(section: dict[str, str], provider: str = "", mode: int | None = None) -> Any:
    context = Context()
    if provider:
        context.gpu.provider = provider
    return asked_tensorrt(context, Config({"gpu_context": section}), PrecisionSettings(mode))


def test_tensorrt_is_asked_for_by_the_configuration_or_the_context() -> None:
    assert _asked({}) is None and _asked({"provider": "cuda"}, "tensorrt") is None
    assert _asked({}, "tensorrt") == TensorRtSettings()
    asked = _asked({"provider": "TensorRT", "serialize_path": '"/engines"'}, mode=10)
    assert asked == TensorRtSettings("/engines", half=True)


def test_shapes_of_a_configuration_are_profiles() -> None:
    section = {
        "provider": "tensorrt",
        "input_shape": "x:[-1,3,-1];mask:[1,8]",
        "dynamic_dims": "[1~4,16~64],[8,128]",
        "opt_dims": "[2,32],[8,128]",
    }
    options = tensorrt_options(_asked(section))
    assert options == {
        "trt_fp16_enable": "0",
        "trt_profile_min_shapes": "x:1x3x16,x:8x3x128",
        "trt_profile_opt_shapes": "x:2x3x32,x:8x3x128",
        "trt_profile_max_shapes": "x:4x3x64,x:8x3x128",
    }
    with pytest.raises(UsageError, match="opt_dims"):
        _asked({**section, "opt_dims": "[9,32],[8,128]"})


def test_a_part_without_an_input_gets_no_profile_and_all_get_the_stream() -> None:
    settings = TensorRtSettings(profiles={"x": [((1, 3), (2, 3), (4, 3))]})
    providers = chosen_providers("gpu", 0, [*_PRESENT, _TENSORRT], False, settings)
    stream = {"user_compute_stream": "7"}
    whole, part = (for_session(providers, names, stream) for names in (["x", "y"], ["y"]))
    assert whole[0][1]["trt_profile_max_shapes"] == "x:4x3"
    assert part[0][1] == {"device_id": "0", "trt_fp16_enable": "0", **stream}
    assert whole[1][1] == part[1][1] == {"device_id": "0", "use_tf32": "0", **stream}
    assert whole[2] == part[2] == _CPU
