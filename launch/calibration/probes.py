"""Probe models: small shards, each of which spends its time on one thing that costs predict.

The ranks have different weights, as shards have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CALLS = 200
PRODUCTS, ROWS, WIDTH = 24, 128, 768
CONVOLUTIONS, CHANNELS, IMAGE, KERNEL = 24, 256, 14, 3
IMAGES, FEW_CHANNELS, LARGE_IMAGE = 24, 64, 56
COPIES, COPIED = 24, 1 << 18
EXCHANGES, SMALL, LARGE = 40, 1 << 8, 1 << 19
WORKED = 512
"""Numbers of nodes, and of float32 elements, in each probe."""

PRODUCT_TURN, CONVOLUTION_TURN = 2, 1
"""Several ranks exchange their results after so many products or convolutions, as shards do: the
times of these have in them what the ranks wait for each other. Shards of convolutions exchange more
often."""


@dataclass(slots=True)
class ProbeGraph:
    """A chain of nodes, of which each takes the result of the one before."""

    shape: tuple[int, ...]
    rank: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, onnx.TensorProto] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The result of the chain so far."""
        return f"v{len(self.nodes)}"

    def add(
        self, operator: str, *weights: str, domain: str = "", **attributes: str | list[int]
    ) -> None:
        """Add a node that takes the last result, and weights."""
        inputs, outputs = [self.last, *weights], [f"v{len(self.nodes) + 1}"]
        node = helper.make_node(operator, inputs, outputs, domain=domain)
        node.attribute.extend(helper.make_attribute(*one) for one in attributes.items())
        self.nodes.append(node)

    def weight(self, name: str, *shape: int, middle: float = 0.0) -> str:
        """Add a weight of random numbers near `middle`; its name."""
        draw = np.random.default_rng([self.rank, len(self.weights)])
        array = draw.standard_normal(shape, np.float32) * np.float32(0.01) + np.float32(middle)
        self.weights[name] = numpy_helper.from_array(array, name)
        return name

    def shape_of(self, name: str, *sizes: int) -> str:
        """Add a constant for a Reshape; its name."""
        self.weights[name] = numpy_helper.from_array(np.array(sizes, np.int64), name)
        return name

    def exchange(self) -> None:
        """Add an AllReduce."""
        self.add("AllReduce", domain="rankmesh", group="world")

    def model(self) -> onnx.ModelProto:
        """The chain as a model with one input and one output."""
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape)
            for name in ("v0", self.last)
        ]
        graph = helper.make_graph(
            self.nodes, "probe", ends[:1], ends[1:], list(self.weights.values())
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("rankmesh", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def calls(rank: int, ranks: int, count: int = CALLS) -> onnx.ModelProto:
    """Many nodes with next to nothing to do."""
    graph = ProbeGraph((1, 16), rank)
    for index in range(count):
        graph.add("Add", graph.weight(f"w{index}", 1, 16))
    return graph.model()


def nothing(rank: int, ranks: int) -> onnx.ModelProto:
    """One such node: what a request costs anyway."""
    return calls(rank, ranks, 1)


def products(rank: int, ranks: int) -> onnx.ModelProto:
    """Products of matrices as transformers have them."""
    graph = ProbeGraph((ROWS, WIDTH), rank)
    for index in range(PRODUCTS):
        graph.add("MatMul", graph.weight(f"w{index}", WIDTH, WIDTH))
        if ranks > 1 and (index + 1) % PRODUCT_TURN == 0:
            graph.exchange()
    return graph.model()


def convolutions(rank: int, ranks: int) -> onnx.ModelProto:
    """Convolutions as networks of images have them, of one pixel and of several in turn."""
    graph = ProbeGraph((1, CHANNELS, IMAGE, IMAGE), rank)
    for index in range(CONVOLUTIONS):
        side = KERNEL if index % 2 else 1
        weight = graph.weight(f"w{index}", CHANNELS, CHANNELS, side, side)
        graph.add("Conv", weight, pads=[side // 2] * 4)
        if ranks > 1 and (index + 1) % CONVOLUTION_TURN == 0:
            graph.exchange()
    return graph.model()


def images(rank: int, ranks: int) -> onnx.ModelProto:
    """Convolutions that onnxruntime fuses with their activation, unless ranks exchange between.

    Ranks exchange them in another shape, which keeps them from staying in the layout.
    """
    side = LARGE_IMAGE
    graph = ProbeGraph((1, FEW_CHANNELS, side, side), rank)
    shapes = [graph.shape_of(name, *one) for name, one in (("flat", (-1,)), ("image", graph.shape))]
    for index in range(IMAGES):
        graph.add("Conv", graph.weight(f"w{index}", FEW_CHANNELS, FEW_CHANNELS, 1, 1))
        if ranks > 1:
            graph.add("Reshape", shapes[0])
            graph.exchange()
            graph.add("Reshape", shapes[1])
        graph.add("Relu")
    return graph.model()


def copies(rank: int, ranks: int) -> onnx.ModelProto:
    """Nodes that read two tensors of 1 MiB and write one."""
    graph = ProbeGraph((COPIED,), rank)
    for index in range(COPIES):
        graph.add("Add", graph.weight(f"w{index}", COPIED))
    return graph.model()


def exchanges(rank: int, ranks: int, elements: int) -> onnx.ModelProto:
    """AllReduces of products that leave sums as large as they were."""
    graph = ProbeGraph((elements,), rank)
    weight = graph.weight("w", elements, middle=1.0 / ranks)
    for _ in range(EXCHANGES):
        graph.add("Mul", weight)
        graph.exchange()
    return graph.model()


def works(rank: int, ranks: int, exchanged: bool) -> onnx.ModelProto:
    """Small products of many weights, which leave nothing else in the caches, as in real shards."""
    graph = ProbeGraph((1, WORKED), rank)
    for index in range(EXCHANGES):
        graph.add("MatMul", graph.weight(f"w{index}", WORKED, WORKED))
        if exchanged:
            graph.exchange()
    return graph.model()


PROBES: dict[str, Callable[[int, int], onnx.ModelProto]] = {
    "nothing": nothing,
    "calls": calls,
    "products": products,
    "convolutions": convolutions,
    "images": images,
    "copies": copies,
    "works": partial(works, exchanged=False),
    "exchanged works": partial(works, exchanged=True),
    "small": partial(exchanges, elements=SMALL),
    "large": partial(exchanges, elements=LARGE),
}
"""All probes by name."""

OF_SEVERAL = {"works", "exchanged works", "small", "large"}
"""Those that only several ranks need."""


def write_probe(name: str, ranks: int, folder: Path) -> str:
    """Write the shards of a probe into a folder for so many ranks; their pattern."""
    folder = folder / str(ranks)  # shards of other numbers of ranks would count as theirs
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        onnx.save(PROBES[name](rank, ranks), str(folder / f"{name}_rank{rank}.onnx"))
    return str(folder / f"{name}_rank{{rank}}.onnx")
