"""Costs: predict the seconds of nodes and conversions, and the bytes of weights, on one rank.

A node costs the larger of its arithmetic and its memory traffic, on the rank with the largest
parts, and nothing where onnxruntime computes it with the node before it. A collective costs a
constant and a time for each byte, and more for images whose layout it changes. The constants are
estimates; launch/calibration measures those of a host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import onnx_ir as ir

from ...source_graph.dims import Dims, begins, fixed, usual
from ...source_graph.source_graph import SourceGraph
from ..placement.edges import IMAGE_AXES, cut_alike, edges, has_rows
from ..placement.fusion import CONVOLUTIONS, is_fused
from ..placement.operator_node import OperatorNode, Strategy
from ..placement.placements import WHOLE, Partial, Placement, Replicated, Split, Windows
from ..placement.wide_sums import held_dtype

_VIEWS = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size"}
_CHANNELS = 16
"""Channels that onnxruntime has side by side in its layout of images, at most."""

_PROJECTING = {"Attention", "QAttention"}
"""In onnxruntime's domain their second input projects the first one."""
_ATTENTION = _PROJECTING | {
    "MultiHeadAttention",
    "DecoderMaskedMultiHeadAttention",
    "GroupQueryAttention",
}
"""Operators in which each query meets all keys, and each score a value."""


class HostCosts(msgspec.Struct, frozen=True):
    """Constants of a host, in seconds.

    `latency` is the part of a collective that does not depend on its size, with the two calls of
    onnxruntime that a cut of the graph adds, `exchanged_byte` the time
    for each byte that a rank receives, `flop`, `convolved_flop` and `byte` the times of arithmetic,
    of that in convolutions, and of memory traffic on one rank, `call` the fixed cost of a node.
    `image_byte` is the time for each byte of an image that a collective takes out of the layout in
    which onnxruntime convolves, and that has to get back into it.
    Those of several ranks have the time in which ranks wait for each other.
    """

    latency: float = 15e-6
    exchanged_byte: float = 1 / 15e9
    flop: float = 1 / 60e9
    convolved_flop: float = 1 / 60e9
    byte: float = 1 / 30e9
    call: float = 2e-6
    image_byte: float = 3e-10


class Collected(msgspec.Struct, frozen=True):
    """One collective of a conversion: its kind, and the bytes of each rank's operand."""

    kind: str
    nbytes: int


def costs_of(graph: SourceGraph, costs: HostCosts) -> HostCosts:
    """The costs for a graph: without convolutions, no value is an image."""
    if any(node.op_type in CONVOLUTIONS for node in graph.nodes):
        return costs
    return msgspec.structs.replace(costs, image_byte=0.0)


def itemsize(value: ir.Value | None, *placements: Placement) -> float:
    """The bytes of one element, as it is held in any of these placements; four where the type is
    unknown.
    """
    if value is None or value.dtype is None or value.dtype == ir.DataType.STRING:
        return 4.0
    held = (held_dtype(value, placement) or value.dtype for placement in placements)
    return max((one.itemsize for one in held), default=value.dtype.itemsize)


def elements(dims: Dims | None, placement: Placement) -> int:
    """The elements of the largest part, for the usual sizes of open dimensions."""
    if dims is None:
        return 0
    shape = list(usual(dims))
    if isinstance(placement, Split | Windows):
        shape[placement.axis] = placement.largest
    return math.prod(shape)


def weight_bytes(value: ir.Value, placement: Placement) -> int:
    """The bytes of a weight on the rank that holds most of it."""
    tensor = value.const_value
    assert tensor is not None
    if isinstance(placement, Split | Windows):
        return -(-tensor.nbytes * placement.largest // int(tensor.shape.numpy()[placement.axis]))
    return tensor.nbytes


def node_seconds(node: OperatorNode, strategy: Strategy, costs: HostCosts) -> float:
    """The predicted time of a node on the rank with the largest parts."""
    if node.node.op_type in _VIEWS:
        return costs.call
    if is_fused(node, strategy):
        return 0.0
    ins = zip(node.node.inputs, node.inputs, strategy.inputs, strict=True)
    outs = zip(node.node.outputs, node.outputs, strategy.outputs, strict=True)
    traffic = sum(itemsize(v, one) * elements(dims, one) for v, dims, one in (*ins, *outs))
    flop = costs.convolved_flop if node.node.op_type in CONVOLUTIONS else costs.flop
    return costs.call + max(_flops(node, strategy) * flop, traffic * costs.byte)


def _flops(node: OperatorNode, strategy: Strategy) -> float:
    """Multiplications and additions of contractions; one for each element of other outputs."""
    out = elements(node.outputs[0], strategy.outputs[0]) if node.outputs else 0
    if node.node.op_type in _ATTENTION:
        return _attended(node, strategy, out)
    depth = _depth(node, strategy)
    return 2.0 * out * depth if depth else float(out)


def _attended(node: OperatorNode, strategy: Strategy, out: int) -> float:
    """The operations of an attention whose output has `out` elements on this rank.

    The last axis but one counts the keys, in those that it gives and in those that it takes.
    """
    projects = node.node.domain == "com.microsoft" and node.node.op_type in _PROJECTING
    first, second = node.inputs[:2]
    given = node.outputs[1] if len(node.outputs) > 1 else None
    keys = given or (None if projects else second) or first
    found = 4.0 * out * (keys[-2][0] if keys else 0)
    if not projects or not first:
        return found
    rows = elements(first, strategy.inputs[0]) / max(first[-1][0], 1)
    return found + 2.0 * rows * elements(second, strategy.inputs[1])


def _depth(node: OperatorNode, strategy: Strategy) -> float:
    """The products that are summed for each element of the output; 0 for other operators."""
    kind = node.node.op_type
    first, second = (*node.inputs, None, None)[:2]
    if first is None or second is None:
        return 0.0
    if kind in ("MatMul", "Gemm", "MatMulInteger", "FusedMatMul"):
        rows = elements(first, strategy.inputs[0])
        batch = elements(node.outputs[0], strategy.outputs[0])
        columns = elements(second, strategy.inputs[1])
        return (
            math.sqrt(rows * columns / batch)
            if batch and len(second) == 2
            else _last(first, strategy.inputs[0])
        )
    if kind in ("MatMulNBits", "QLinearMatMul"):
        return _last(first, strategy.inputs[0])
    if kind in CONVOLUTIONS:
        return _kernel_elements(node, strategy, 3 if kind == "QLinearConv" else 1)
    return 0.0


def _kernel_elements(node: OperatorNode, strategy: Strategy, at: int) -> float:
    """The products for each element of a convolution's output; its weights are input `at`."""
    weight, placement = node.inputs[at], strategy.inputs[at]
    if not weight:
        return 0.0
    rows = weight[0][0]
    if isinstance(placement, Split) and placement.axis == 0:
        rows = placement.largest
    each = elements(weight, placement) / max(rows, 1)
    if node.node.op_type != "ConvTranspose":
        return each
    whole = elements(node.outputs[0], strategy.outputs[0])
    return each * elements(node.inputs[0], strategy.inputs[0]) / max(whole, 1)


def _last(dims: Dims, placement: Placement) -> float:
    """The size of the last axis on the rank with the largest part."""
    if isinstance(placement, Split) and placement.axis == len(dims) - 1:
        return float(placement.largest)
    return float(dims[-1][0])


def conversion_seconds(
    dims: Dims, size: float, before: Placement, after: Placement, costs: HostCosts
) -> float:
    """The predicted time of a conversion of a value with elements of `size` bytes."""
    ranks = _ranks(before, after)
    held = isinstance(before, Windows) and isinstance(after, Windows) and before.holds(after)
    if isinstance(after, Windows) and not (before == WHOLE or held or cut_alike(before, after)):
        whole = conversion_seconds(dims, size, before, WHOLE, costs)
        return whole + conversion_seconds(dims, size, WHOLE, after, costs)
    moved = sum(
        costs.latency + one.nbytes * _share(one.kind, ranks) * costs.exchanged_byte
        for one in collectives(dims, size, before, after, ranks)
    )
    copied = _copied(dims, before, after) * costs.byte
    return moved + costs.call + size * (copied + _reordered(dims, before, after) * costs.image_byte)


def _reordered(dims: Dims, before: Placement, after: Placement) -> float:
    """The elements of an image that change their layout before a collective and after it.

    Values of four axes count as images. A whole image has the layout of a collective already.
    """
    if len(dims) != IMAGE_AXES or before == WHOLE or _keeps_layout(dims, before, after):
        return 0.0
    return (elements(dims, before) + elements(dims, after)) / 2


def _keeps_layout(dims: Dims, before: Placement, after: Placement) -> bool:
    """Whether worker/image_layout exchanges an image in the layout in which it is convolved.

    It sums images, and gathers their edges, their rows, and their channels.
    """
    channels = before.largest if isinstance(before, Split) and before.axis == 1 else dims[1][0]
    if channels % _CHANNELS or any(fixed(dim) is None for dim in dims):
        return False
    if isinstance(before, Split) and before.axis == 1:
        return after == WHOLE and before.even and begins(dims, 1)
    summed = isinstance(before, Partial) and after == WHOLE
    return summed or has_rows(dims, before) and (after == WHOLE or cut_alike(before, after))


def _copied(dims: Dims, before: Placement, after: Placement) -> int:
    """The elements that the nodes around a collective read and write: transposes, slices."""
    first, last = elements(dims, before), elements(dims, after)
    match before, after:
        case Partial(), Split() if after.even:
            return 0 if begins(dims, after.axis) else 2 * (first + last)
        case Partial(), Replicated():
            return 0
        case Windows(), Split() | Windows() if before.holds(after):
            return 2 * last
        case Split() | Windows(), Replicated() if has_rows(dims, before):
            return 4 * last
        case Split() | Windows(), Replicated():
            ordered = before.even and isinstance(before, Split) and before.ratios == (1,)
            moved = 0 if begins(dims, before.axis) else 2 * (first + last)
            return moved + (0 if ordered else 2 * last)
        case Split(), Split():
            return 4 * (first + last)
    return 2 * last


def _ranks(*placements: Placement) -> int:
    return next((one.ranks for one in placements if isinstance(one, Split | Windows)), 2)


def _share(kind: str, ranks: int) -> float:
    """The bytes that a rank reads from others, for each byte of its operand."""
    if kind == "AllReduce":
        return 2.0 * (ranks - 1) / ranks
    return float(ranks - 1) if kind == "AllGather" else (ranks - 1) / ranks


def collectives(
    dims: Dims,
    size: float,
    before: Placement,
    after: Placement,
    ranks: int,
    is_bool: bool = False,
) -> Iterator[Collected]:
    """The collectives that emission/conversions.py makes of a conversion, for the usual sizes."""
    match before, after:
        case Split(), Windows() if cut_alike(before, after):
            width = max(map(len, edges(before, after)))
            if width:
                part = elements(dims, before) // before.largest
                yield Collected("AllGather", int(size * part * width))
        case Partial(), Split() if after.even:
            yield Collected("ReduceScatter", int(size * elements(dims, before)))
        case Partial(), _:
            yield Collected("AllReduce", int(size * elements(dims, before)))
        case Split(), Split() if exchanges(before, after) and not is_bool:
            yield Collected("AllToAll", int(size * elements(dims, before)))
        case Windows(), Split() | Windows() if before.holds(after):
            return
        case Split() | Windows(), Replicated() | Split() | Windows():
            yield Collected("AllGather", int(size * elements(dims, before)))


def exchanges(before: Split, after: Split) -> bool:
    """Whether an AllToAll turns one split into the other."""
    plain = before.ratios == after.ratios == (1,) and before.axis != after.axis
    return plain and before.even and after.even
