"""Sliding windows: split convolutions and pooling by rows of their images.

A rank's rows of the output depend on a window of rows of the input, which reaches over the edges
of its part. Only ranks at the ends of the image pad it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...source_graph.dims import fixed
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import Placement, Split, Windows, split

_WEIGHTS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Where convolutions have their weights."""


@dataclass(frozen=True, slots=True)
class Sliding:
    """How a kernel slides over one axis of an image.

    The axis has `length` elements, behind `pad` elements of padding. The kernel covers `extent`
    elements, and moves by `stride`.
    """

    length: int
    extent: int
    stride: int
    pad: int

    def reach(self, start: int, stop: int) -> tuple[int, int]:
        """The elements under the kernel for some elements of the output; padding has others."""
        return start * self.stride - self.pad, (stop - 1) * self.stride - self.pad + self.extent

    def pads(self, start: int, stop: int) -> tuple[int, int]:
        """The padding on both sides for some elements of the output."""
        first, last = self.reach(start, stop)
        return max(0, -first), max(0, last - self.length)

    def inputs(self, part: Split) -> Split | Windows | None:
        """The input that each rank needs for its part; None where one would see padding alone.

        Where the kernel is no longer than its stride, parts of a split do.
        """
        starts, stops = [], []
        for rank in range(part.ranks):
            first, last = self.reach(*part.intervals(rank)[0])
            starts.append(max(first, 0))
            stops.append(min(last, self.length))
        if any(start >= stop for start, stop in zip(starts, stops, strict=True)):
            return None
        axis, bounds = part.axis, (*starts, self.length)
        unused = [bound - stop for bound, stop in zip(bounds[1:], stops, strict=True)]
        if all(0 <= one < self.stride for one in unused):
            return split(axis, bounds)
        return Windows(axis, tuple(starts), tuple(stops))


def sliding(node: OperatorNode, axis: int) -> Sliding | None:
    """How the kernel of a convolution or pooling slides over an axis; None where it is unknown."""
    dims, spatial = node.inputs[0] or (), axis - 2
    length, kernel = fixed(dims[axis]), _kernel(node)
    if length is None or kernel is None:
        return None
    stride = (node.ints_of("strides") or (1,) * len(kernel))[spatial]
    dilation = (node.ints_of("dilations") or (1,) * len(kernel))[spatial]
    extent = dilation * (kernel[spatial] - 1) + 1
    pad = (node.ints_of("pads") or (0,) * len(kernel))[spatial]
    kind = node.text_of("auto_pad", "NOTSET")
    if kind.startswith("SAME"):
        total = max((-(-length // stride) - 1) * stride + extent - length, 0)
        pad = total // 2 if kind == "SAME_UPPER" else total - total // 2
    elif kind == "VALID":
        pad = 0
    return Sliding(length, extent, stride, pad) if pad >= 0 else None


def _kernel(node: OperatorNode) -> tuple[int, ...] | None:
    """The sizes of the kernel."""
    at = _WEIGHTS.get(node.node.op_type)
    if at is None:
        return node.ints_of("kernel_shape")
    sizes = [fixed(dim) for dim in (node.inputs[at] or ())[2:]]
    found = tuple(size for size in sizes if size is not None)
    return found if len(found) == len(sizes) else None


def sliding_axis(node: OperatorNode) -> int:
    """The axis of an image that is split: the first of its longest ones."""
    lengths = [fixed(dim) or 0 for dim in (node.inputs[0] or ())[2:]]
    return 2 + lengths.index(max(lengths)) if lengths else 0


def by_window(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """The strategy in which each rank has some rows of the output, and a window of the input."""
    axis = sliding_axis(node)
    image = node.node.inputs[0]
    if (
        not operand.is_output
        or not isinstance(placement, Split)
        or (placement.axis, placement.ratios) != (axis, (1,))
        or len(node.outputs) != 1
        or image is None
        or image.is_initializer()
        or not _is_plain(node)
    ):
        return
    found = sliding(node, axis)
    part = None if found is None else found.inputs(placement)
    if part is not None:
        summand = {3: placement} if node.node.op_type == "FusedConv" and node.has_input(3) else {}
        yield node.strategy({0: part, **summand}, {0: placement})


def _is_plain(node: OperatorNode) -> bool:
    """Whether the padding of all axes is known, and counts alike everywhere."""
    axes = range(2, len(node.inputs[0] or ()))
    if node.text_of("auto_pad", "NOTSET").startswith("SAME") or node.int_of("ceil_mode"):
        ends = node.inputs[0], node.outputs[0]
        if any(fixed((dims or ())[axis]) is None for dims in ends for axis in axes):
            return False
    return not (node.int_of("ceil_mode") and node.int_of("count_include_pad"))


def own_rows(local: LocalNode) -> None:
    """Pad only what this rank has of the padding."""
    placement, node = local.strategy.outputs[0], local.source
    if not isinstance(placement, Split) or placement.axis < 2:
        return
    given = node.ints_of("pads") or (0,) * (2 * (len(node.inputs[0] or ()) - 2))
    pads = [list(given[: len(given) // 2]), list(given[len(given) // 2 :])]
    for axis in range(2, 2 + len(pads[0])):
        whole = fixed((node.outputs[0] or ())[axis])
        rows = placement.intervals(local.rank)[0] if axis == placement.axis else (0, whole)
        found = sliding(node, axis)
        if found is not None and rows[1] is not None:
            pads[0][axis - 2], pads[1][axis - 2] = found.pads(rows[0], rows[1])
    local.set("pads", [*pads[0], *pads[1]])
    local.node.attributes.pop("auto_pad", None)
    if "ceil_mode" in local.node.attributes:
        local.set("ceil_mode", 0)
