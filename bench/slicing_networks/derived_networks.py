"""Networks made from exported ones by onnxruntime's tools: fused, quantised and of half precision,
and MindIR files of this repository.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from registry import Network, add

MINDIR = Path(__file__).parents[2] / "tests" / "data" / "mindir"
FUSED: dict[str, tuple[str, int]] = {
    "bert": ("bert", 4),
    "bert_dynamic": ("bert", 4),
    "bert_12_heads": ("bert", 12),
    "roberta_dynamic": ("bert", 4),
    "distilbert": ("bert", 4),
    "electra": ("bert", 4),
    "gpt2": ("gpt2", 4),
    "gpt2_dynamic": ("gpt2", 4),
    "gpt2_cache": ("gpt2", 4),
    "t5_dynamic": ("t5", 4),
    "bart": ("bart", 4),
    "vit": ("vit", 4),
    "clip": ("clip", 4),
    "swin": ("swin", 2),
}
OPTIMISED = (
    "bert_dynamic",
    "gpt2",
    "llama_gqa",
    "llama_gqa_cache",
    "qwen3_cache",
    "t5",
    "vit",
    "whisper",
    "tv_resnet18",
    "tv_mobilenet_v2",
)
DYNAMIC = ("bert_dynamic", "gpt2", "llama_gqa_cache", "distilbert", "t5", "vit", "tv_resnet18")
STATIC = ("bert", "distilbert", "vit", "tv_resnet18", "tv_mobilenet_v2", "llama_gqa")
OPERATORS = ("distilbert", "vit", "tv_resnet18", "tv_mobilenet_v2")
BLOCKS = (
    "llama_gqa",
    "llama_gqa_cache",
    "gpt2",
    "bert_dynamic",
    "phi3",
    "t5",
    "mistral",
    "builder_llama",
)
HALF = ("bert", "llama_gqa", "gpt2_cache", "vit", "tv_resnet18", "t5")


def register() -> None:
    """Registers all networks of this file; those that they are made from come before."""
    for name, (model_type, heads) in FUSED.items():
        _derive(f"{name}_fused", "fused", name, _fuse, model_type=model_type, heads=heads)
    for name in OPTIMISED:
        _derive(f"{name}_optimised", "fused", name, _optimise)
    for name in DYNAMIC:
        _derive(f"{name}_int8", "quantised", name, _quantise_dynamically)
    for name in STATIC:
        _derive(f"{name}_qdq", "quantised", name, _quantise, form="QDQ")
    for name in OPERATORS:
        _derive(f"{name}_qlinear", "quantised", name, _quantise, form="QOperator")
    for name in BLOCKS:
        _derive(f"{name}_4_bits", "quantised", name, _quantise_blocks, bits=4, block=16)
    for name in BLOCKS[:2]:
        _derive(f"{name}_8_bits", "quantised", name, _quantise_blocks, bits=8, block=32)
    for name in HALF:
        _derive(f"{name}_fp16", "half", name, _halve)
    _register_mindir()


def _derive(name: str, kind: str, base: str, change: Callable[..., None], **params: Any) -> None:
    def write(network: Network, path: Path) -> dict[str, Any]:
        source = path.with_name(f"{base}.onnx")
        record = path.with_name(f"{base}.json")
        if not record.exists():
            raise FileNotFoundError(f"{source} is not there: export {base} first")
        known = json.loads(record.read_text())
        change(source, path.with_suffix(".onnx"), **params)
        inherited = {
            key: known[key] for key in ("sizes", "other_sizes", "dynamic", "opset") if key in known
        }
        inherited["inputs"] = known["inputs"]
        with np.load(source.with_suffix(".npz")) as file:
            examples = dict(file)
        if change is _halve:
            for one in inherited["inputs"].values():
                one["dtype"] = one["dtype"].replace("float32", "float16")
            examples = {key: _half(one) for key, one in examples.items()}
        np.savez(path.with_suffix(".npz"), **examples)
        error = _compare(source, path.with_suffix(".onnx"), examples)
        return inherited | {"base": base, "error_to_base": error}

    add(Network(name, kind, f"onnxruntime of {base}", write=write, params=params))


def _half(one: np.ndarray) -> np.ndarray:
    return one.astype(np.float16) if one.dtype == np.float32 else one


def _fuse(source: Path, target: Path, model_type: str, heads: int) -> None:
    from onnxruntime.transformers import optimizer

    model = optimizer.optimize_model(
        str(source), model_type=model_type, num_heads=heads, hidden_size=0, opt_level=0
    )
    model.save_model_to_file(str(target))
    if not any(node.domain == "com.microsoft" for node in model.model.graph.node):
        raise ValueError("the optimizer fused nothing")


def _optimise(source: Path, target: Path) -> None:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _quantise_dynamically(source: Path, target: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(source, target)


def _quantise(source: Path, target: Path, form: str) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    with np.load(source.with_suffix(".npz")) as file:
        examples = iter([dict(file)])

    class Examples(CalibrationDataReader):
        def get_next(self) -> Any:
            return next(examples, None)

    quantize_static(
        str(source), str(target), Examples(), quant_format=QuantFormat[form],
        per_channel=form == "QDQ",
    )  # fmt: skip


def _quantise_blocks(source: Path, target: Path, bits: int, block: int) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(source), bits=bits, block_size=block)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))


def _halve(source: Path, target: Path) -> None:
    import onnx
    from onnxruntime.transformers import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(source)), target)


def _compare(source: Path, target: Path, examples: dict[str, np.ndarray]) -> float:
    """The largest difference of a result to that of the base, in parts of its largest number."""
    import onnxruntime as ort

    found = []
    for path in (source, target):
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        feeds = {}
        for one in session.get_inputs():
            given = examples[one.name]
            feeds[one.name] = given.astype(np.float32) if "(float)" in one.type else given
        found.append(session.run(None, feeds))
    worst = 0.0
    for wanted, got in zip(*found, strict=True):
        if not np.isfinite(got).all():
            raise ValueError("onnxruntime returns numbers that are not finite")
        scale = max(float(np.abs(wanted).max()), 1e-6)
        worst = max(worst, float(np.abs(got.astype(np.float64) - wanted).max()) / scale)
    return worst


def _register_mindir() -> None:
    for folder in sorted(MINDIR.iterdir()):
        name = folder.name
        files = [folder / f"{name}{suffix}" for suffix in (".mindir", ".npz")]
        if name.startswith(("dist_", "enc_")) or not all(one.exists() for one in files):
            continue
        source = f"tests/data/mindir/{name}"
        add(Network(f"mindir_{name}", "mindir", source, write=_copy))


def _copy(network: Network, path: Path) -> dict[str, Any]:
    name = network.name.removeprefix("mindir_")
    for suffix in (".mindir", ".npz"):
        shutil.copyfile(MINDIR / name / f"{name}{suffix}", path.with_suffix(suffix))
    return {"note": "inputs are in_0, in_1, ... and MindSpore's results out_0, out_1, ..."}
