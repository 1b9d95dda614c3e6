"""Image rows: operators that take or join parts of images do so in onnxruntime's layout.

On a CPU, onnxruntime convolves in a layout that has a few channels of each pixel side by side
(NCHWc). A value of shape [N, C, H, W] then lies in memory as [N, C / block, H, W, block]. Its
optimizer reorders images around all operators that lack a kernel for this layout. Those along the
height or width need none: Reshapes, which copy nothing, give them the five axes. Those along the
first axis, and those of each element, need not even these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from .joined_segment import RULER

LAYOUT_DOMAIN = "com.microsoft.nchwc"
INTO, OUT_OF = "ReorderInput", "ReorderOutput"
_BATCH, _HEIGHT, _WIDTH = 0, 2, 3
_OF_EACH_ELEMENT = {"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid"}
_TOGETHER = (1, -1, 0, 0)
"""The shape with which a Reshape makes the channels of all images those of one."""


class BlockedImage(NamedTuple):
    """A value in onnxruntime's layout, and how many channels it has."""

    name: str
    channels: int


class ImageRows:
    """A graph whose Gathers, Slices and Concats of images get into the layout of `block` channels.

    `results` are inputs of the graph that are in the layout already, and their shapes. All that
    takes them has to be able to, as `takes_layout` says.
    """

    def __init__(self, graph: GraphProto, block: int, results: Mapping[str, Sequence[int]]) -> None:
        self._graph = graph
        self._block = block
        self._constants = {one.name: one for one in graph.initializer}
        self._results = results
        self._images = {name: BlockedImage(name, shape[1]) for name, shape in results.items()}
        """The values that are there in the layout, too."""
        self._only_blocked = {*results}
        """Those of them that have no other layout."""
        self._same: dict[str, str] = {}
        """Values in the layout that are others."""
        self._users: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._users[name].append(node)
        self._made = {name for node in graph.node for name in node.output}
        self._outputs = {one.name for one in graph.output} | {*_captured(graph)}

    def rewrite(self) -> Mapping[str, BlockedImage]:
        """Rewrite the graph; what its values are called in the layout.

        Reorderings that nothing needs any more stay in the graph.
        """
        nodes = list(self._nodes())
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        return self._images

    def takes_layout(self, name: str) -> bool:
        """Whether all that takes a result of a collective could as well take it in the layout."""
        return name not in self._outputs and all(map(self._may_take, self._users[name]))

    def _may_take(self, node: NodeProto) -> bool:
        attributes = _attributes(node)
        if node.domain:
            into = (node.domain, node.op_type) == (LAYOUT_DOMAIN, INTO)
            return into and not attributes.get("channels_last")
        if node.op_type == "Concat":
            return attributes["axis"] in (_HEIGHT, _WIDTH) and self._is_blocked_next(node.output[0])
        axes = {*self._axes(node)}
        fits = self._is_direct(node) or axes and axes <= {_BATCH, _HEIGHT, _WIDTH}
        return bool(fits) and all(map(self.takes_layout, node.output))

    def _is_blocked_next(self, name: str) -> bool:
        """Whether all that takes a value brings it into the layout."""
        return name not in self._outputs and all(
            (one.domain, one.op_type) == (LAYOUT_DOMAIN, INTO) for one in self._users[name]
        )

    def _is_direct(self, node: NodeProto) -> bool:
        """Whether a node computes the same in both layouts, as it is."""
        if node.op_type == "Reshape":
            given = node.input[0] not in self._made  # how many images there are is known of inputs
            return given and tuple(self._numbers(node.input[1])) == _TOGETHER
        if node.op_type == "Split":
            return bool(_attributes(node).get("axis", 0) == _BATCH)
        return node.op_type in _OF_EACH_ELEMENT or {*self._axes(node)} == {_BATCH}

    def _axes(self, node: NodeProto) -> Sequence[int]:
        """The axes of a Slice; () for other nodes."""
        return self._numbers(node.input[3]) if node.op_type == "Slice" and node.input[3:] else ()

    def _nodes(self) -> Iterator[NodeProto]:
        for node in self._graph.node:
            for index, name in enumerate(node.input):
                node.input[index] = self._same.get(name, name)
            yield from self._replaced(node)

    def _replaced(self, node: NodeProto) -> Iterator[NodeProto]:
        attributes = _attributes(node)
        if node.domain == LAYOUT_DOMAIN and not attributes.get("channels_last"):
            channels = attributes.get("channels", 0)
            if node.op_type == OUT_OF and channels % self._block == 0:
                self._images[node.output[0]] = BlockedImage(node.input[0], channels)
            if node.op_type == INTO and node.input[0] in self._images:
                self._same[node.output[0]] = self._images[node.input[0]].name
                return
        if not node.domain and self._is_joined(node, attributes.get("axis")):
            yield from self._joined(node)
        elif not node.domain and node.input and node.input[0] in self._only_blocked:
            yield from self._in_place(node)
        elif not node.domain and self._is_taken(node, attributes.get("axis")):
            yield from self._taken(node)
        else:
            yield node

    def _in_place(self, node: NodeProto) -> Iterator[NodeProto]:
        """The node on a value that is in the layout only, as its results are."""
        image = self._images[node.input[0]]
        self._only_blocked.update(node.output)
        if not self._is_direct(node):
            yield from self._taken(node)
            return
        images = self._results[image.name][0] if node.op_type == "Reshape" else 1
        channels = images * image.channels
        node.input[0] = image.name
        for index, name in enumerate(node.output):
            node.output[index] = f"{name}.in_layout"
            self._images[name] = BlockedImage(node.output[index], channels)
        yield node

    def _is_taken(self, node: NodeProto, axis: object) -> bool:
        """Whether a node takes rows or columns of an image."""
        if not node.input or node.input[0] not in self._images:
            return False
        if node.op_type == "Gather":
            return axis in (_HEIGHT, _WIDTH) and len(self._numbers(node.input[1])) > 0
        axes = self._axes(node)
        return len(axes) > 0 and {*axes} <= {_HEIGHT, _WIDTH}

    def _is_joined(self, node: NodeProto, axis: object) -> bool:
        """Whether a node joins rows or columns of images, and only the layout is needed after."""
        return (
            node.op_type == "Concat"
            and axis in (_HEIGHT, _WIDTH)
            and any(name in self._images for name in node.input)
            and self._is_blocked_next(node.output[0])
        )

    def _taken(self, node: NodeProto) -> Iterator[NodeProto]:
        (output,) = node.output
        channels = self._images[node.input[0]].channels
        node.input[0] = self._images[node.input[0]].name
        node.output[0] = image = f"{output}.in_layout"
        yield from self._with_five_axes(node, 1, channels)
        yield helper.make_node(OUT_OF, [image], [output], domain=LAYOUT_DOMAIN, channels=channels)
        self._images[output] = BlockedImage(image, channels)

    def _joined(self, node: NodeProto) -> Iterator[NodeProto]:
        known = [self._images[name] for name in node.input if name in self._images]
        for index, name in enumerate(node.input):
            if name in self._images:
                node.input[index] = self._images[name].name
            else:
                node.input[index] = f"{node.output[0]}.{index}.in_layout"
                yield helper.make_node(INTO, [name], [node.input[index]], domain=LAYOUT_DOMAIN)
        self._images[node.output[0]] = BlockedImage(node.output[0], known[0].channels)
        yield from self._with_five_axes(node, len(node.input), known[0].channels)

    def _with_five_axes(self, node: NodeProto, images: int, channels: int) -> Iterator[NodeProto]:
        """The node on its first inputs with five axes; its result has four again."""
        (output,) = node.output
        apart = self._shape(0, channels // self._block, 0, 0, self._block)
        for index, name in enumerate(node.input[:images]):
            node.input[index] = f"{output}.{index}"
            yield helper.make_node("Reshape", [name, apart], [node.input[index]])
        node.output[0] = f"{output}.apart"
        yield node
        together = self._shape(0, channels, 0, 0)
        yield helper.make_node("Reshape", [node.output[0], together], [output])

    def _numbers(self, name: str) -> Sequence[int]:
        """The numbers of a constant list; () for other values."""
        found = self._constants.get(name)
        if found is None or len(found.dims) != 1 or found.data_location == TensorProto.EXTERNAL:
            return ()
        return [int(number) for number in numpy_helper.to_array(found)]

    def _shape(self, *sizes: int) -> str:
        """A constant, for a Reshape: 0 keeps a size."""
        name = f"rankmesh.shape.{'.'.join(map(str, sizes))}"
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.array(sizes, np.int64), name)
            self._graph.initializer.append(self._constants[name])
        return name


def _captured(graph: GraphProto) -> Iterator[str]:
    """The names that bodies of nodes use; no Reshape can be put before those."""
    bodies = [one.g for node in graph.node for one in node.attribute if one.HasField("g")]
    for body in bodies:
        yield from (name for node in body.node for name in node.input)
        yield from (one.name for one in body.output)
        yield from _captured(body)


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


def block_of(graph: GraphProto) -> int:
    """The number of channels that the layout has side by side; 0 where the graph has none."""
    makers = {name: node for node in graph.node for name in node.output}
    reorder = makers[RULER]
    ruler = makers.get(reorder.input[0]) if reorder.domain == LAYOUT_DOMAIN else None
    weights = {one.name: one for one in graph.initializer}
    return int(weights[ruler.input[1]].dims[0]) if ruler else 0
