"""Types of collectives: the shapes and dtypes of their results, and which results have a
meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from ...comm.arrays import Array, Shape
from ...comm.collective_call import Call, Kind
from ...comm.errors import InputError, ModelError
from ..element_types import dtypes
from ..element_types.value_types import TensorType
from .collective_nodes import node_attributes, node_label

_GATHERING = {Kind.ALL_GATHER, Kind.GATHER}
_SCATTERING = {Kind.REDUCE_SCATTER, Kind.SCATTER}
_DIVIDED = {*_SCATTERING, Kind.ALL_TO_ALL}
_ROOTED = {Kind.REDUCE, Kind.GATHER}


def result_types(
    node: NodeProto,
    call: Call,
    rank: int,
    inputs: Sequence[TensorType],
    declared: Sequence[TensorType | None],
    path: str,
) -> list[TensorType]:
    """The types of a collective's results on `rank`, from its inputs and the declarations of the
    file.

    Raises ModelError, which names the node, where the two contradict each other or do not suffice.
    """
    where = node_label(node, path)
    if call.kind is Kind.NEIGHBOR_EXCHANGE:
        return [
            _static(kind, name, where) for kind, name in zip(declared, node.output, strict=True)
        ]
    if _without_value(call, rank) and declared[0]:  # MindSpore declares another shape there
        return [declared[0]]
    found = (
        [_received(node, inputs, path)]
        if call.kind is Kind.RECEIVE
        else _computed(call, inputs, where)
    )
    return [_agreed(kind, said, where) for kind, said in zip(found, declared, strict=True)]


def result_shapes(call: Call, shapes: Sequence[Shape]) -> list[Shape]:
    """The shapes of a collective's results at run time, where the plan leaves them open."""
    if call.kind not in _GATHERING | _DIVIDED:
        return list(shapes)
    shape, size = shapes[0], call.group.size
    if not shape or (call.kind in _DIVIDED and shape[0] % size):
        raise InputError(
            f"node {call.node} ({call.kind.value}) cannot take a tensor of shape {list(shape)}: "
            f"it needs a first axis{_multiple(call)}."
        )
    return [_along_first_axis(call, shape)]


def without_meaning(call: Call, rank: int, inputs_meaningless: bool) -> bool:
    """Whether a collective's result on `rank` has no meaning.

    So it is for Reduce and CollectiveGather on other ranks than the root, and for inputs without
    meaning.
    """
    if _without_value(call, rank):
        return True
    if call.kind in (Kind.RECEIVE, Kind.NEIGHBOR_EXCHANGE):
        return False
    if call.kind in (Kind.BROADCAST, Kind.SCATTER) and call.group.ranks.index(rank) != call.root:
        return False
    return inputs_meaningless


def _without_value(call: Call, rank: int) -> bool:
    return call.kind in _ROOTED and call.group.ranks.index(rank) != call.root


def received_shape(call: Call, given: Array, declared: Shape | None) -> Shape:
    """The shape of a received tensor, which an input of its node gives; InputError where it does
    not fit.
    """
    shape = tuple(int(size) for size in given.reshape(-1))
    if min(shape, default=0) < 0 or not shapes_fit(shape, declared):
        raise InputError(
            f"node {call.node} ({call.kind.value}) was told to receive a tensor of shape "
            f"{list(shape)}, and the file declares {list(declared or ())} (-1: any size)."
        )
    return shape


def _received(node: NodeProto, inputs: Sequence[TensorType], path: str) -> TensorType:
    attributes, where = node_attributes(node, path), node_label(node, path)
    try:
        kind = TensorType(dtypes.from_onnx(attributes["dtype"]), tuple(attributes["shape"]))
    except ValueError as error:
        raise ModelError(f"{where}: {error}.") from error
    if not inputs:
        return _static(kind, node.output[0], where)
    axes = len(kind.shape or ())
    if inputs[0].dtype != np.int64 or not shapes_fit(inputs[0].shape, (axes,)):
        raise ModelError(
            f"{where}: its input is {_described(inputs[0])}, expected int64[{axes}]: the shape of "
            "the tensor, with as many axes as the attribute 'shape' has."
        )
    if min(kind.shape or (), default=0) < -1:
        raise ModelError(
            f"{where}: has the shape {list(kind.shape or ())}, expected sizes, or -1 for those "
            "that its input gives."
        )
    return kind


def _static(kind: TensorType | None, name: str, where: str) -> TensorType:
    """The type of a tensor from another rank, which only the file can state."""
    if kind is None or kind.shape is None or min(kind.shape, default=0) < 0:
        raise ModelError(
            f"{where}: the file must say the dtype and the whole shape of '{name}', which comes "
            "from another rank: declare it in value_info."
        )
    return kind


def _computed(call: Call, inputs: Sequence[TensorType], where: str) -> list[TensorType]:
    if call.kind is Kind.SEND:
        return []
    if call.kind not in _GATHERING | _DIVIDED or inputs[0].shape is None:
        return list(inputs)
    dtype, shape = inputs[0].dtype, inputs[0].shape
    if not shape or (call.kind in _DIVIDED and shape[0] > 0 and shape[0] % call.group.size):
        raise ModelError(
            f"{where}: cannot take a tensor of shape {list(shape)}: it needs a first axis"
            f"{_multiple(call)}."
        )
    return [TensorType(dtype, _along_first_axis(call, shape))]


def _multiple(call: Call) -> str:
    return (
        f" that is a multiple of {call.group.size}, the group's size"
        if call.kind in _DIVIDED
        else ""
    )


def _along_first_axis(call: Call, shape: Shape) -> Shape:
    first, size = shape[0], call.group.size
    if first >= 0 and call.kind in _GATHERING:
        first *= size
    elif first >= 0 and call.kind in _SCATTERING:
        first //= size
    return (first, *shape[1:])


def _agreed(computed: TensorType, declared: TensorType | None, where: str) -> TensorType:
    """The computed type, with dimensions that only the declaration knows."""
    if declared is None:
        return computed
    if computed.dtype != declared.dtype or not shapes_fit(computed.shape, declared.shape):
        raise ModelError(
            f"{where}: gives {_described(computed)}, and the file declares {_described(declared)}."
        )
    if computed.shape is None or declared.shape is None:
        return declared if computed.shape is None else computed
    return TensorType(computed.dtype, tuple(map(max, computed.shape, declared.shape)))


def _described(kind: TensorType) -> str:
    return kind.dtype.name + ("[?]" if kind.shape is None else str(list(kind.shape)))


def shapes_fit(a: Shape | None, b: Shape | None) -> bool:
    """Whether all known dimensions of two shapes agree."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x == y or x < 0 or y < 0 for x, y in zip(a, b, strict=True))
