"""Small models for orchestrators, written where a test wants them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import save
from onnx_models import BF16, collective, model, node

import rankmesh

SAMPLE = str(Path(rankmesh.__file__).parent / "launch" / "sample" / "Matmul.mindir")
"""Two ranks with an AllGather: x [4, 16] to output_0 [4, 16]."""

WEIGHTS = {"straight": (16, 256), "bias": (256,), "turned": (256, 16)}
"""Of the model `weighed`."""

TYPES = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BF16": BF16,
}
"""Of the model `typed`."""


def doubler(folder: Path) -> str:
    """y = x + x for x of [rows, 4], any number of rows; and s, what was passed as bias of one
    value.
    """
    nodes = [node("Add", "x x", "d"), node("Add", "d bias", "y"), node("Identity", "bias", "s")]
    return _saved(
        folder,
        "doubler",
        model(nodes, {"x": ["rows", 4], "bias": [1]}, {"y": ["rows", 4], "s": [1]}),
    )


def echo(folder: Path, size: int) -> str:
    """y = x, of `size` float32."""
    return _saved(folder, "echo", model([node("Identity", "x", "y")], {"x": [size]}, {"y": [size]}))


def typed(folder: Path) -> str:
    """`fp16_out` = `fp16` and so on, of three elements each, for all of TYPES."""
    same = [node("Identity", name.lower(), f"{name.lower()}_out") for name in TYPES]
    inputs = {name.lower(): (np.dtype(kind), [3]) for name, kind in TYPES.items()}
    outputs = {f"{name}_out": kind for name, kind in inputs.items()}
    return _saved(folder, "types", model(same, inputs, outputs))


def grower(folder: Path) -> str:
    """y = as many ones as n says: a size that only the run tells."""
    nodes = [node("ConstantOfShape", "n", "z"), node("Add", "z one", "y")]
    return _saved(
        folder,
        "grower",
        model(
            nodes, {"n": (np.int64, [1])}, {"y": ["n"]}, constants={"one": np.ones(1, np.float32)}
        ),
    )


def denoiser(folder: Path) -> str:
    """A batch of one as document 004 has it: sample [1, 4, 8, 8], timestep [1],
    encoder_hidden_states [1, 7, 16].
    """
    nodes = [
        node("ReduceMean", "encoder_hidden_states", "mean", keepdims=0),
        node("Add", "sample timestep", "later"),
        node("Add", "later mean", "noise"),
    ]
    inputs = {"sample": [1, 4, 8, 8], "timestep": [1], "encoder_hidden_states": [1, 7, 16]}
    return _saved(folder, "denoiser", model(nodes, inputs, {"noise": [1, 4, 8, 8]}))


def weighed(folder: Path, ranks: int = 1) -> str:
    """For x of ones [2, 16] a shard gives y = 17 w and z = 16 w, where w is what all its weights
    are (1). Ranks sum it.

    Two weights are used as they lie, and `turned` behind a Transpose, which sessions compute when
    they are made.
    """
    constants = {name: np.ones(shape, np.float32) for name, shape in WEIGHTS.items()}
    ends = [
        collective("AllReduce", made, given, group="world")
        if ranks > 1
        else node("Identity", made, given)
        for made, given in (("q", "y"), ("p", "z"))
    ]
    nodes = [
        node("MatMul", "x straight", "m"),
        node("Add", "m bias", "q"),
        node("Transpose", "turned", "t"),
        node("MatMul", "x t", "p"),
        *ends,
    ]
    for rank in range(ranks):
        _saved(
            folder,
            f"weighed{rank}",
            model(nodes, {"x": [2, 16]}, {"y": [2, 256], "z": [2, 256]}, constants=constants),
        )
    return str(folder / "weighed{rank}.onnx")


def _saved(folder: Path, name: str, made: object) -> str:
    path = str(folder / f"{name}.onnx")
    save(made, path)  # type: ignore[arg-type]
    return path
