"""A small transformer as one ONNX model, always with the same numbers, and a case to compare with.

Usage: python model.py MODEL.onnx     writes MODEL.npz beside it
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, LAYERS = 512, 64, 4, 3
RANDOM = np.random.default_rng(0)


class Graph:
    """Nodes and weights; each node has one output, whose name is the node's."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, name: str, operator: str, *inputs: str, **attributes: object) -> str:
        """A node of ONNX."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        """A weight, or a shape."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        """A random weight."""
        array = RANDOM.standard_normal(shape) / np.sqrt(shape[0])
        return self.constant(name, array.astype(np.float32))

    def linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        """x @ weight."""
        return self.node(name, "MatMul", x, self.weight(f"{name}.weight", inputs, outputs))

    def norm(self, name: str, x: str) -> str:
        """A LayerNormalization."""
        scale = self.constant(f"{name}.weight", np.ones(WIDTH, np.float32))
        return self.node(name, "LayerNormalization", x, scale)


def layer(graph: Graph, x: str, name: str) -> str:
    """Attention of four heads, and a feed-forward part of two matrices."""
    normed = graph.norm(f"{name}.attention.norm", x)
    shape = graph.constant(f"{name}.shape", np.array([0, 0, HEADS, WIDTH // HEADS]))
    flat = graph.constant(f"{name}.flat", np.array([0, 0, WIDTH]))
    heads = []
    for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        stem = f"{name}.attention.{part}"
        split = graph.node(
            f"{stem}.heads", "Reshape", graph.linear(stem, normed, WIDTH, WIDTH), shape
        )
        heads.append(graph.node(f"{stem}.turned", "Transpose", split, perm=order))
    stem = f"{name}.attention"
    scores = graph.node(f"{stem}.scores", "MatMul", heads[0], heads[1])
    weights = graph.node(f"{stem}.softmax", "Softmax", scores, axis=-1)
    mixed = graph.node(f"{stem}.mixed", "MatMul", weights, heads[2])
    turned = graph.node(f"{stem}.turned", "Transpose", mixed, perm=[0, 2, 1, 3])
    joined = graph.node(f"{stem}.joined", "Reshape", turned, flat)
    x = graph.node(f"{stem}.sum", "Add", x, graph.linear(f"{stem}.out", joined, WIDTH, WIDTH))
    up = graph.linear(f"{name}.up", graph.norm(f"{name}.norm", x), WIDTH, 4 * WIDTH)
    down = graph.linear(f"{name}.down", graph.node(f"{name}.relu", "Relu", up), 4 * WIDTH, WIDTH)
    return graph.node(f"{name}.sum", "Add", x, down)


def transformer() -> onnx.ModelProto:
    """From ids [batch, sequence] to logits [batch, sequence, 512]; both sizes are open."""
    graph = Graph()
    x = graph.node("embedded", "Gather", graph.weight("embedding", VOCABULARY, WIDTH), "ids")
    for number in range(LAYERS):
        x = layer(graph, x, f"layers.{number}")
    graph.linear("logits", graph.norm("norm", x), WIDTH, VOCABULARY)
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])
    logits = helper.make_tensor_value_info(
        "logits", TensorProto.FLOAT, ["batch", "sequence", VOCABULARY]
    )
    made = helper.make_graph(graph.nodes, "transformer", [ids], [logits], graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(path: Path) -> None:
    """Write the model and the case."""
    onnx.save(transformer(), path)
    ids = RANDOM.integers(0, VOCABULARY, (1, 12))
    session = onnxruntime.InferenceSession(path)
    np.savez(path.with_suffix(".npz"), ids=ids, logits=session.run(None, {"ids": ids})[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
