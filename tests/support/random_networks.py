"""Random networks: small ONNX models of the blocks that networks are made of, for planning.

Sequences pass feed-forward blocks and attention, images convolutions; some images become sequences.
The sizes are often ones that ranks do not divide.
"""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Gelu")
_IMAGE_STEPS = ("convolution", "convolution", "residual", "depthwise", "pooling", "excitation")


def random_network(random: Random) -> onnx.ModelProto:
    """A model with random blocks, sizes and weights."""
    writer = _NetworkWriter(random)
    kind = random.choice(["tokens", "tokens", "sequence", "image", "patches"])
    return writer.model(getattr(writer, kind)())


class _NetworkWriter:
    """The nodes and weights of a network; its methods add blocks, and return what they make."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._draw = np.random.default_rng(random.getrandbits(32))
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._batch = random.choice([1, 1, 2, 3])
        self._length = random.choice([4, 16, 17, 64, 128])
        self._heads = random.choice([1, 2, 3, 4, 4, 6, 8, 12])
        self._width = self._heads * random.choice([4, 8, 16, 32])

    def model(self, last: str) -> onnx.ModelProto:
        """The network whose output is `last`."""
        output = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, "random", self._inputs, [output], self._weights)
        opsets = [helper.make_opsetid("", 20)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return onnx.shape_inference.infer_shapes(made)

    def tokens(self) -> str:
        """Ids, their embeddings, blocks, and scores: of the embedding's own rows, or others."""
        ids = self._input("ids", TensorProto.INT64, [self._batch, self._length])
        size = self._random.choice([50, 64, 200, 1000, 1001])
        table = self._weight(size, self._width)
        x = self._blocks(self._op("Gather", table, ids))
        if self._random.random() < 0.4:
            return self._op("MatMul", x, self._op("Transpose", table, perm=[1, 0]))
        return self._linear(x, self._width, size)

    def sequence(self) -> str:
        """A sequence that passes blocks, and is sometimes narrower at the end."""
        shape = [self._batch, self._length, self._width]
        x = self._blocks(self._input("x", TensorProto.FLOAT, shape))
        return x if self._random.random() < 0.5 else self._linear(x, self._width, 10)

    def image(self) -> str:
        """An image that passes convolutions, and classes of it."""
        x, channels = self._image()
        pooled = self._op("GlobalAveragePool", x)
        flat = self._op("Flatten", pooled)
        weight = self._weight(self._random.choice([10, 100]), channels)
        return self._op("Gemm", flat, weight, transB=1)

    def patches(self) -> str:
        """An image of which convolutions make a sequence for blocks."""
        x, channels = self._image()
        self._length = 16
        weight = self._weight(self._width, channels, 4, 4)
        grid = self._op("Conv", x, weight, strides=[4, 4])
        flat = self._op("Reshape", grid, self._constant([0, 0, -1]))
        return self._blocks(self._op("Transpose", flat, perm=[0, 2, 1]))

    def _image(self) -> tuple[str, int]:
        channels = self._random.choice([3, 16])
        x = self._input("image", TensorProto.FLOAT, [self._batch, channels, 16, 16])
        for _ in range(self._random.randint(1, 4)):
            step = getattr(self, f"_{self._random.choice(_IMAGE_STEPS)}")
            x, channels = step(x, channels)
        return x, channels

    def _convolution(self, x: str, channels: int) -> tuple[str, int]:
        width, size = self._random.choice([16, 24, 33, 64]), self._random.choice([1, 3, 5])
        return self._active(self._conv(x, width, channels, size)), width

    def _residual(self, x: str, channels: int) -> tuple[str, int]:
        inner = self._random.choice([16, 32])
        middle = self._active(self._conv(x, inner, channels, 3))
        return self._active(self._op("Add", x, self._conv(middle, channels, inner, 1))), channels

    def _depthwise(self, x: str, channels: int) -> tuple[str, int]:
        weight = self._weight(channels, 1, 3, 3)
        return self._op("Conv", x, weight, pads=[1] * 4, group=channels), channels

    def _pooling(self, x: str, channels: int) -> tuple[str, int]:
        return self._op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), channels

    def _excitation(self, x: str, channels: int) -> tuple[str, int]:
        few = max(4, channels // 4)
        inner = self._active(self._conv(self._op("GlobalAveragePool", x), few, channels, 1))
        scale = self._op("Sigmoid", self._conv(inner, channels, few, 1))
        return self._op("Mul", x, scale), channels

    def _blocks(self, x: str) -> str:
        """Some blocks, alike or not."""
        random = self._random
        alike = random.choice([None, self._transformer, self._attention, self._mlp])
        others = [self._transformer, self._attention, self._mlp, self._gated, self._softmax]
        for _ in range(random.randint(1, 4)):
            x = (alike or random.choice(others))(x)
        return x

    def _transformer(self, x: str) -> str:
        return self._normal(self._mlp(self._normal(self._attention(x))))

    def _mlp(self, x: str) -> str:
        inner = self._inner()
        down = self._linear(self._active(self._linear(x, self._width, inner)), inner, self._width)
        return self._op("Add", x, down)

    def _gated(self, x: str) -> str:
        inner = self._inner()
        up, gate = (self._linear(x, self._width, inner) for _ in range(2))
        both = self._op("Mul", up, self._op("Sigmoid", gate))
        return self._op("Add", x, self._linear(both, inner, self._width))

    def _softmax(self, x: str) -> str:
        return self._op("Softmax", self._linear(x, self._width, self._width), axis=-1)

    def _attention(self, x: str) -> str:
        """Attention; queries, keys and values are projected apart, or by one matrix."""
        parts = self._packed(x) if self._length % 2 else self._apart(x)
        heads = [
            self._op("Transpose", part, perm=order)
            for part, order in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
        ]
        scores = self._op("Softmax", self._op("MatMul", heads[0], heads[1]), axis=-1)
        mixed = self._op("Transpose", self._op("MatMul", scores, heads[2]), perm=[0, 2, 1, 3])
        joined = self._op("Reshape", mixed, self._constant([0, 0, self._width]))
        return self._op("Add", x, self._linear(joined, self._width, self._width))

    def _apart(self, x: str) -> list[str]:
        shape = self._constant([0, 0, self._heads, self._width // self._heads])
        projected = [self._linear(x, self._width, self._width) for _ in range(3)]
        return [self._op("Reshape", one, shape) for one in projected]

    def _packed(self, x: str) -> list[str]:
        """Queries, keys and values of one matrix: an axis of three, as torch exports them."""
        fused = self._linear(x, self._width, 3 * self._width)
        sizes = [0, 0, 3, self._heads, self._width // self._heads]
        parts = self._op("Reshape", fused, self._constant(sizes))
        return [
            self._op("Gather", parts, self._constant(index, np.int64), axis=2) for index in range(3)
        ]

    def _inner(self) -> int:
        return self._random.choice([2 * self._width, 4 * self._width, 100, 96])

    def _normal(self, x: str) -> str:
        vectors = self._weight(self._width), self._weight(self._width)
        return self._op("LayerNormalization", x, *vectors)

    def _linear(self, x: str, before: int, after: int) -> str:
        product = self._op("MatMul", x, self._weight(before, after))
        return self._op("Add", product, self._weight(after))

    def _conv(self, x: str, after: int, before: int, size: int) -> str:
        weights = self._weight(after, before, size, size), self._weight(after)
        return self._op("Conv", x, *weights, pads=[size // 2] * 4)

    def _active(self, x: str) -> str:
        return self._op(self._random.choice(_ACTIVATIONS), x)

    def _op(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], f"n_{name}", **attributes))
        return name

    def _input(self, name: str, kind: int, shape: list[int]) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def _weight(self, *shape: int) -> str:
        return self._constant(self._draw.standard_normal(shape), np.float32)

    def _constant(self, array: object, kind: type = np.int64) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.array(array, kind), name))
        return name
