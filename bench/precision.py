"""What a float32 or float16 network takes on this CPU under each precision_mode.

    python bench/precision.py [--rounds 30]

Six layers of MatMul, Add and Tanh (1024 wide, 64 rows), and six of Conv and Relu (64 channels, 28 x
28). The contenders take turns in one process, with one thread; a figure is the least of all rounds,
as what disturbs a run only adds to it. Errors are against the float32 network, of its largest
result.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import NodeProto, helper, numpy_helper, save
from report import print_machine, print_table

from rankmesh import Context, Model, ModelType

LAYERS = 6
SHAPES = {"dense": (64, 1024), "convolutions": (1, 64, 28, 28)}
CONTENDERS = [
    ("float32", "cpu", "enforce_fp32"),
    ("float32", "cpu", "preferred_fp16"),
    ("float16", "cpu", "enforce_fp32"),
    ("float16", "ascend", "enforce_origin"),
]


def dense(i: int) -> tuple[list[NodeProto], dict[str, tuple[int, ...]]]:
    """A layer, and the shapes of its weights."""
    nodes = [
        helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"m{i}"]),
        helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
        helper.make_node("Tanh", [f"a{i}"], [f"x{i + 1}"]),
    ]
    return nodes, {f"w{i}": (1024, 1024), f"b{i}": (1024,)}


def convolution(i: int) -> tuple[list[NodeProto], dict[str, tuple[int, ...]]]:
    """Likewise."""
    nodes = [
        helper.make_node("Conv", [f"x{i}", f"w{i}", f"b{i}"], [f"c{i}"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"]),
    ]
    return nodes, {f"w{i}": (64, 64, 3, 3), f"b{i}": (64,)}


def network(kind: str, dtype: str, path: Path) -> str:
    """An ONNX file; the same weights in every dtype."""
    layers = [(dense if kind == "dense" else convolution)(i) for i in range(LAYERS)]
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(
            (random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(dtype), name
        )
        for _, shapes in layers
        for name, shape in shapes.items()
    ]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (
        helper.make_tensor_value_info(name, element, SHAPES[kind]) for name in ("x0", f"x{LAYERS}")
    )
    graph = helper.make_graph(
        [node for nodes, _ in layers for node in nodes], kind, [x], [y], weights
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return str(path)


def built(path: str, target: str, mode: str) -> Model:
    """The network as `target`'s precision_mode wants it, on the CPU."""
    context, model = Context(), Model()
    context.target, context.cpu.thread_num = [target], 1
    getattr(context, target).precision_mode = mode
    model.build_from_file(path, ModelType.MINDIR, context)
    return model


def measured(
    kind: str, models: Mapping[tuple[str, str], Model], rounds: int
) -> list[tuple[str, ...]]:
    """Rows of network, its dtype, mode, least milliseconds, and error."""
    x = np.random.default_rng(1).standard_normal(SHAPES[kind])
    least, results = dict.fromkeys(models, np.inf), {}
    for _ in range(rounds):
        for key, model in models.items():
            given = [x.astype(key[0])]
            start = time.perf_counter()
            outputs = model.predict(given)
            least[key] = min(least[key], time.perf_counter() - start)
            results[key] = outputs[0].get_data_to_numpy().astype(np.float64)
    exact = results["float32", "enforce_fp32"]
    errors = {
        key: np.abs(result - exact).max() / np.abs(exact).max() for key, result in results.items()
    }
    return [(kind, *key, f"{least[key] * 1e3:.2f}", f"{errors[key]:.1e}") for key in models]


def main() -> None:
    parser = argparse.ArgumentParser(description="Precisions on a CPU.")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print_machine("onnxruntime", "numpy")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for kind in SHAPES:
            models = {
                (dtype, mode): built(
                    network(kind, dtype, Path(scratch) / "model.onnx"), target, mode
                )
                for dtype, target, mode in CONTENDERS
            }
            rows += measured(kind, models, options.rounds)
    print_table(("network", "dtype", "precision_mode", "ms", "error"), rows)


if __name__ == "__main__":
    main()
