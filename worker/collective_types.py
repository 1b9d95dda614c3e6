"""What collectives do to types and shapes, and which of their results mean something."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from ..comm.collectives.base import Call, Kind
from ..comm.errors import InputError, ModelError
from . import dtypes
from .collective_nodes import node_attributes, node_label
from .mindir.graph import TensorType

_GATHERING = {Kind.ALL_GATHER, Kind.GATHER}
_SCATTERING = {Kind.REDUCE_SCATTER, Kind.SCATTER}
_DIVIDED = {*_SCATTERING, Kind.ALL_TO_ALL}
_ROOTED = {Kind.REDUCE, Kind.GATHER}
Shape = tuple[int, ...]


def result_types(node: NodeProto, call: Call, rank: int, inputs: Sequence[TensorType],
                 declared: Sequence[TensorType | None], path: str) -> list[TensorType]:
    """The types of a collective's results on `rank`, from its inputs and from what the file declares.

    Raises ModelError, naming the node, where the two contradict each other or do not suffice.
    """
    where = node_label(node, path)
    if call.kind is Kind.NEIGHBOR_EXCHANGE:
        return [_static(kind, name, where) for kind, name in zip(declared, node.output, strict=True)]
    if _without_value(call, rank) and declared[0]:  # MindSpore declares another shape there
        return [declared[0]]
    found = [_received(node, path)] if call.kind is Kind.RECEIVE else _computed(call, inputs, where)
    return [_agreed(kind, said, where) for kind, said in zip(found, declared, strict=True)]


def result_shapes(call: Call, shapes: Sequence[Shape]) -> list[Shape]:
    """The shapes of a collective's results at run time, where the plan does not fix them."""
    if call.kind not in _GATHERING | _DIVIDED:
        return list(shapes)
    shape, size = shapes[0], call.group.size
    if not shape or (call.kind in _DIVIDED and shape[0] % size):
        raise InputError(f"node {call.node} ({call.kind.value}) cannot take a tensor of shape {list(shape)}: its "
                         f"first axis must be there{_multiple(call)}.")
    return [_along_first_axis(call, shape)]


def without_meaning(call: Call, rank: int, inputs_meaningless: bool) -> bool:
    """Whether a collective's result on `rank` says nothing: Reduce and CollectiveGather elsewhere than at the root."""
    if _without_value(call, rank):
        return True
    if call.kind in (Kind.RECEIVE, Kind.NEIGHBOR_EXCHANGE):
        return False
    if call.kind in (Kind.BROADCAST, Kind.SCATTER) and call.group.ranks.index(rank) != call.root:
        return False
    return inputs_meaningless


def _without_value(call: Call, rank: int) -> bool:
    return call.kind in _ROOTED and call.group.ranks.index(rank) != call.root


def _received(node: NodeProto, path: str) -> TensorType:
    attributes = node_attributes(node, path)
    try:
        kind = TensorType(dtypes.from_onnx(attributes["dtype"]), tuple(attributes["shape"]))
    except ValueError as error:
        raise ModelError(f"{node_label(node, path)}: {error}.") from error
    return _static(kind, node.output[0], node_label(node, path))


def _static(kind: TensorType | None, name: str, where: str) -> TensorType:
    """The type of what comes from elsewhere, which nothing but the file can tell."""
    if kind is None or kind.shape is None or min(kind.shape, default=0) < 0:
        raise ModelError(f"{where}: the file must say the dtype and the whole shape of '{name}', which comes from "
                         f"another rank: declare it in value_info.")
    return kind


def _computed(call: Call, inputs: Sequence[TensorType], where: str) -> list[TensorType]:
    if call.kind is Kind.SEND:
        return []
    if call.kind not in _GATHERING | _DIVIDED or inputs[0].shape is None:
        return list(inputs)
    dtype, shape = inputs[0].dtype, inputs[0].shape
    if not shape or (call.kind in _DIVIDED and shape[0] > 0 and shape[0] % call.group.size):
        raise ModelError(f"{where}: cannot take a tensor of shape {list(shape)}: its first axis must be "
                         f"there{_multiple(call)}.")
    return [TensorType(dtype, _along_first_axis(call, shape))]


def _multiple(call: Call) -> str:
    return f" and a multiple of {call.group.size}, the group's size" if call.kind in _DIVIDED else ""


def _along_first_axis(call: Call, shape: Shape) -> Shape:
    first, size = shape[0], call.group.size
    if first >= 0 and call.kind in _GATHERING:
        first *= size
    elif first >= 0 and call.kind in _SCATTERING:
        first //= size
    return (first, *shape[1:])


def _agreed(computed: TensorType, declared: TensorType | None, where: str) -> TensorType:
    """What is computed, with the dimensions that only the declaration knows."""
    if declared is None:
        return computed
    if computed.dtype != declared.dtype or not shapes_fit(computed.shape, declared.shape):
        raise ModelError(f"{where}: gives {_described(computed)}, and the file declares {_described(declared)}.")
    if computed.shape is None or declared.shape is None:
        return declared if computed.shape is None else computed
    return TensorType(computed.dtype, tuple(map(max, computed.shape, declared.shape)))


def _described(kind: TensorType) -> str:
    return kind.dtype.name + ("[?]" if kind.shape is None else str(list(kind.shape)))


def shapes_fit(a: Shape | None, b: Shape | None) -> bool:
    """Whether two shapes have no known dimension that differs."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x == y or x < 0 or y < 0 for x, y in zip(a, b, strict=True))
