"""What a float16 or float32 network takes on this CPU under each precision_mode.

    python bench/precision.py [--rounds 30]

Six layers of MatMul, Add and Tanh (1024 wide). The contenders take turns in one process, with one thread; a figure is the
least of all rounds, as what disturbs a run only adds to it. Errors are against the float32 network, of its largest result.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper, save
from report import print_machine, print_table

from rankmesh import Context, Model, ModelType

WIDTH, LAYERS = 1024, 6
CONTENDERS = [("float32", "cpu", "enforce_fp32"), ("float32", "cpu", "preferred_fp16"),
              ("float16", "cpu", "enforce_fp32"), ("float16", "ascend", "enforce_origin")]


def network(path: Path, dtype: str) -> str:
    """An ONNX file; the same weights in every dtype."""
    random, nodes, weights, value = np.random.default_rng(0), [], [], "x"
    for i in range(LAYERS):
        weights += [numpy_helper.from_array((random.standard_normal(shape) * scale).astype(dtype), f"{name}{i}")
                    for name, shape, scale in (("w", (WIDTH, WIDTH), WIDTH ** -0.5), ("b", (WIDTH,), 1))]
        nodes += [helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]),
                  helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]), helper.make_node("Tanh", [f"a{i}"], [f"t{i}"])]
        value = f"t{i}"
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, kind, ["n", WIDTH]) for name in ("x", value))
    graph = helper.make_graph(nodes, "layers", [x], [y], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return str(path)


def built(path: str, target: str, mode: str) -> Model:
    """The network as `target`'s precision_mode wants it, on the CPU."""
    context, model = Context(), Model()
    context.target, context.cpu.thread_num = [target], 1
    getattr(context, target).precision_mode = mode
    model.build_from_file(path, ModelType.MINDIR, context)
    return model


def measured(models: dict[tuple[str, str], Model], x: np.ndarray, rounds: int) -> list[tuple[str, ...]]:
    """Rows of network, mode, least milliseconds and error."""
    least, results = dict.fromkeys(models, np.inf), {}
    for _ in range(rounds):
        for key, model in models.items():
            start, given = time.perf_counter(), x.astype(key[0])
            results[key] = model.predict([given])[0].get_data_to_numpy().astype(np.float64)
            least[key] = min(least[key], time.perf_counter() - start)
    exact = results["float32", "enforce_fp32"]
    return [(str(len(x)), *key, f"{least[key] * 1e3:.2f}", f"{np.abs(results[key] - exact).max() / np.abs(exact).max():.1e}")
            for key in models]


def main() -> None:
    parser = argparse.ArgumentParser(description="Precisions on a CPU.")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print_machine("onnxruntime", "numpy")
    with tempfile.TemporaryDirectory() as scratch:
        files = {dtype: network(Path(scratch) / f"{dtype}.onnx", dtype) for dtype in ("float32", "float16")}
        models = {(dtype, mode): built(files[dtype], target, mode) for dtype, target, mode in CONTENDERS}
        x = np.random.default_rng(1).standard_normal((64, WIDTH)).astype(np.float32)
        rows = [row for count in (1, 64) for row in measured(models, x[:count], options.rounds)]
    print_table(("rows", "network", "precision_mode", "ms", "error"), rows)


if __name__ == "__main__":
    main()
