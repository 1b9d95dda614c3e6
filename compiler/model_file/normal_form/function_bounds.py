"""Bounds of local functions: the depth of their calls, and the size of the model without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onnx import ModelProto, NodeProto

from ....comm.errors import ModelError
from ...onnx_graph.onnx_values import all_nodes

_DEEPEST = 100
"""The depth of nested calls. Exporters nest functions as deep as modules, to ten
or so.
"""
_MOST_NODES = 1 << 16
"""Nodes of an inlined model: three times those of a network of a hundred layers. For more,
onnxruntime's optimizers take minutes.
"""
_MOST_BYTES = 1 << 28
"""Bytes that calls may add by constants inside functions. Weights belong into initializers, which
are not copied.
"""
Key = tuple[str, str, str]


class _Body(NamedTuple):
    """The nodes of a function or of the model's graph: their number, bytes, and calls of
    functions.
    """

    nodes: int
    size: int
    calls: Counter[Key]


class _Inlined(NamedTuple):
    """A body with all calls written out; `depth` is the depth of nested calls in it."""

    nodes: int
    size: int
    depth: int


def check_bounds(model: ModelProto, path: str) -> None:
    """Raise ModelError, which names `path`, where functions call themselves or make the model far
    too large.
    """
    bodies = {(one.domain, one.name, one.overload): _body(one.node) for one in model.functions}
    if len(bodies) < len(model.functions):
        raise ModelError(f"{path}: two local functions have the same name. Export it again.")
    known: dict[Key, _Inlined] = {}
    whole = _written_out(_body(model.graph.node), bodies, known, path, ())
    for key in bodies:  # unused ones too, which a file may have by mistake
        _function(key, bodies, known, path, ())
    if whole.nodes > _MOST_NODES or whole.size > _MOST_BYTES + model.ByteSize():
        raise ModelError(
            f"{path}: has {whole.nodes} nodes of {whole.size} bytes once its local functions are "
            f"inlined, expected at most {_MOST_NODES} of {_MOST_BYTES + model.ByteSize()}: "
            "refused. Export it without functions."
        )


def _function(
    key: Key,
    bodies: Mapping[Key, _Body],
    known: dict[Key, _Inlined],
    path: str,
    inside: tuple[Key, ...],
) -> _Inlined:
    if key in inside:
        raise ModelError(
            f"{path}: the local function '{key[1]}' calls itself, which ONNX forbids. Export it "
            "again."
        )
    if key not in known:
        known[key] = _written_out(bodies[key], bodies, known, path, (*inside, key))
    if known[key].depth >= _DEEPEST:
        raise ModelError(
            f"{path}: local functions are called inside of each other {_DEEPEST} times or more: "
            "refused. Export it without functions."
        )
    return known[key]


def _written_out(
    body: _Body,
    bodies: Mapping[Key, _Body],
    known: dict[Key, _Inlined],
    path: str,
    inside: tuple[Key, ...],
) -> _Inlined:
    if len(inside) > _DEEPEST:  # deep enough to be refused
        return _Inlined(0, 0, _DEEPEST)
    called = [
        (times, _function(key, bodies, known, path, inside))
        for key, times in body.calls.items()
        if key in bodies
    ]
    return _Inlined(
        body.nodes
        + sum(times * (inner.nodes - 1) for times, inner in called),  # without the call itself
        body.size + sum(times * inner.size for times, inner in called),
        1 + max((inner.depth for _, inner in called), default=0),
    )


def _body(nodes: Sequence[NodeProto]) -> _Body:
    calls = Counter((node.domain, node.op_type, node.overload) for node in all_nodes(nodes))
    return _Body(sum(calls.values()), sum(node.ByteSize() for node in nodes), calls)
