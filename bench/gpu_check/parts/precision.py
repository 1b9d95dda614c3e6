"""Precision modes: how far products on a device are from exact ones, by each precision_mode."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from onnx_writer import OnnxWriter

from rankmesh import Context, Model, ModelType

from ..figures import Figure

_ROWS, _DEPTH = 256, 1024
_BOUNDS = {
    "enforce_fp32": (0.0, 1e-5),
    "preferred_tf32": (2e-5, 2e-3),
    "preferred_fp16": (2e-5, 5e-3),
    "preferred_bf16": (3e-4, 3e-2),
}
"""Errors of a product of 1024 terms, of the largest element. Numbers of TF32 and float16 have 11
bits, those of bfloat16 8: a smaller error than the least would be that of another mode."""


def measure(device: str) -> list[Figure]:
    """The largest error of a product, by each mode that the device has."""
    draw = np.random.default_rng(3)
    x, weight = draw.normal(size=(_ROWS, _DEPTH)), draw.normal(size=(_DEPTH, _ROWS))
    x, weight = x.astype(np.float32), weight.astype(np.float32)
    exact = x.astype(np.float64) @ weight.astype(np.float64)
    modes = [mode for mode in _BOUNDS if device == "gpu" or mode != "preferred_tf32"]
    with tempfile.TemporaryDirectory() as scratch:
        path = _write(Path(scratch), weight)
        errors = {mode: _error(path, device, mode, x, exact) for mode in modes}
    return [
        Figure(
            f"error of a product by {mode}", error, least=_BOUNDS[mode][0], most=_BOUNDS[mode][1]
        )
        for mode, error in errors.items()
    ]


def _write(folder: Path, weight: np.ndarray) -> str:
    writer = OnnxWriter(folder, "product")
    made = writer.op("MatMul", "x", writer.weight(weight))
    writer.save({"x": (_ROWS, _DEPTH)}, made, (_ROWS, _ROWS))
    return str(folder / "product.onnx")


def _error(path: str, device: str, mode: str, x: np.ndarray, exact: np.ndarray) -> float:
    context, model = Context(), Model()
    context.target, context.cpu.thread_num = [device], 1
    getattr(context, device).precision_mode = mode
    model.build_from_file(path, ModelType.MINDIR, context)
    made = [model.predict([x])[0].get_data_to_numpy().copy() for _ in range(3)]
    gaps = [np.abs(one.astype(np.float64) - exact).max() for one in made]  # of captured runs too
    return float(max(gaps) / np.abs(exact).max())
