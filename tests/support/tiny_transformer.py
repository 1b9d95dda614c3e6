"""A small transformer: masks, positions, a tied embedding, and an early output."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, LONGEST = 24, 8, 2, 16


class _Writer:
    """Nodes and weights, by names."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, operator: str, inputs: str, output: str, **attributes: object) -> str:
        name = f"{output}/{operator}"
        self.nodes.append(
            helper.make_node(operator, inputs.split(), [output], name=name, **attributes)
        )
        return output

    def constant(self, name: str, array: object, kind: type = np.int64) -> str:
        self.weights.append(numpy_helper.from_array(np.array(array, kind), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        array = self._draw.standard_normal(shape) / np.sqrt(shape[0])
        return self.constant(name, array, np.float32)

    def linear(self, x: str, output: str, before: int, after: int) -> str:
        weight = self.weight(f"{output}.weight", before, after)
        self.op("MatMul", f"{x} {weight}", f"{output}.product")
        return self.op("Add", f"{output}.product {self.weight(f'{output}.bias', after)}", output)

    def normal(self, x: str, output: str) -> str:
        scale, bias = self.weight(f"{output}.scale", WIDTH), self.weight(f"{output}.bias", WIDTH)
        return self.op("LayerNormalization", f"{x} {scale} {bias}", output)


def tiny_transformer(
    layers: int = 2, open_dims: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model and its inputs: ids and a mask of shape [batch, sequence], here [2, 6]."""
    write = _Writer()
    shape = ["batch", "sequence"] if open_dims else [2, 6]
    x = _embedded(write)
    _mask(write)
    for number in range(layers):
        x = _layer(write, x, f"layer{number}")
    write.normal(x, "last")
    write.op("Transpose", "embedding", "embedding.transposed", perm=[1, 0])
    write.op("MatMul", "last embedding.transposed", "logits")
    write.op("Identity", "layer0.hidden", "early")
    graph = helper.make_graph(
        write.nodes,
        "tiny",
        [helper.make_tensor_value_info(n, TensorProto.INT64, shape) for n in ("ids", "mask")],
        [
            helper.make_tensor_value_info("early", TensorProto.FLOAT, [*shape, WIDTH]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [*shape, VOCABULARY]),
        ],
        write.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    ids = np.arange(12).reshape(2, 6) * 5 % VOCABULARY
    return model, {"ids": ids, "mask": np.where(np.arange(12).reshape(2, 6) == 11, 0, 1)}


def _embedded(write: _Writer) -> str:
    write.weight("embedding", VOCABULARY, WIDTH)
    write.weight("positions", LONGEST, WIDTH)
    write.op("Gather", "embedding ids", "embedded")
    write.op("Shape", "ids", "ids.shape")
    write.op("Gather", f"ids.shape {write.constant('one', 1)}", "length")
    write.op("Range", f"{write.constant('zero', 0)} length one", "range")
    write.op("Gather", "positions range", "position")
    return write.op("Add", "embedded position", "x")


def _mask(write: _Writer) -> None:
    write.op("Unsqueeze", f"mask {write.constant('axes', [1, 2])}", "mask.wide")
    write.op("Cast", "mask.wide", "mask.float", to=TensorProto.FLOAT)
    write.op("Sub", f"{write.constant('unit', 1, np.float32)} mask.float", "mask.other")
    write.op("Mul", f"mask.other {write.constant('low', -1e4, np.float32)}", "mask.added")


def _layer(write: _Writer, x: str, name: str) -> str:
    write.normal(x, f"{name}.norm")
    split = write.constant(f"{name}.split", [0, 0, HEADS, WIDTH // HEADS])
    for part, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        write.linear(f"{name}.norm", f"{name}.{part}", WIDTH, WIDTH)
        write.op("Reshape", f"{name}.{part} {split}", f"{name}.{part}.split")
        write.op("Transpose", f"{name}.{part}.split", f"{name}.{part}.heads", perm=order)
    write.op("MatMul", f"{name}.q.heads {name}.k.heads", f"{name}.scores")
    write.op("Add", f"{name}.scores mask.added", f"{name}.masked")
    write.op("Softmax", f"{name}.masked", f"{name}.weights", axis=-1)
    write.op("MatMul", f"{name}.weights {name}.v.heads", f"{name}.context")
    write.op("Transpose", f"{name}.context", f"{name}.context.back", perm=[0, 2, 1, 3])
    joined = write.constant(f"{name}.join", [0, 0, WIDTH])
    write.op("Reshape", f"{name}.context.back {joined}", f"{name}.joined")
    write.linear(f"{name}.joined", f"{name}.attention", WIDTH, WIDTH)
    write.op("Add", f"{x} {name}.attention", f"{name}.middle")
    write.normal(f"{name}.middle", f"{name}.norm2")
    write.linear(f"{name}.norm2", f"{name}.up", WIDTH, 4 * WIDTH)
    write.op("Relu", f"{name}.up", f"{name}.active")
    write.linear(f"{name}.active", f"{name}.down", 4 * WIDTH, WIDTH)
    return write.op("Add", f"{name}.middle {name}.down", f"{name}.hidden")
