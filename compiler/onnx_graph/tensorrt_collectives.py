"""TensorRT's collectives: nodes `DistCollective` become nodes of the domain `rankmesh`, and back.

Such a node is of the default domain. Its attribute `groups` has global ranks, none for all of them;
`root` is a global rank as well, and `nb_rank` the number of ranks, 1 where it is not stated.
polygraphy writes values in lower case, NVIDIA's documents in upper case: both are read.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, helper

from ...comm.collective_call import REDUCING, Call, Kind, Reduction
from ...comm.errors import ModelError
from .collective_nodes import DOMAIN, call_of, node_label, stated_attributes
from .onnx_values import all_nodes, subgraphs

OPERATOR = "DistCollective"
_TYPES = {
    "collective_operation": AttributeProto.STRING,
    "reduce_op": AttributeProto.STRING,
    "root": AttributeProto.INT,
    "nb_rank": AttributeProto.INT,
    "group_size": AttributeProto.INT,
    "groups": AttributeProto.INTS,
}
_KINDS = {
    "all_reduce": Kind.ALL_REDUCE,
    "all_gather": Kind.ALL_GATHER,
    "broadcast": Kind.BROADCAST,
    "reduce": Kind.REDUCE,
    "reduce_scatter": Kind.REDUCE_SCATTER,
    "all_to_all": Kind.ALL_TO_ALL,
    "gather": Kind.GATHER,
    "scatter": Kind.SCATTER,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_ROOTED = (Kind.BROADCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER)
_IN_ANY_ORDER = (Kind.ALL_REDUCE, Kind.BROADCAST, Kind.REDUCE)
_AVERAGE, _NO_REDUCTION = "avg", "none"
_LEAST_OPSET = 15
"""The first opset with CastLike, which an average needs for its divisor."""


def from_tensorrt(model: ModelProto, path: str) -> None:
    """Replace TensorRT's nodes in place, in a model of normal form.

    Raises ModelError, which names `path`, where one is wrong.
    """
    if _replaced(model.graph.node, model.opset_import, path):
        _import_domain(model.opset_import)


def to_tensorrt(model: ModelProto, rank: int, world_size: int, path: str) -> None:
    """Replace the collectives of one rank's shard in place by TensorRT's nodes.

    Raises ModelError, which names `path` and the node, where TensorRT has no such collective.
    """
    for index, node in enumerate(
        node for node in all_nodes(model.graph.node) if node.domain == DOMAIN
    ):
        if node.op_type == "Assign":
            raise ModelError(
                f"{node_label(node, path)}: keeps a state, which TensorRT's {OPERATOR} cannot."
            )
        call = call_of(node, index, rank, world_size, path)
        _require_written(node, call, path)
        node.CopyFrom(_written(node, call, world_size))
    kept = [opset for opset in model.opset_import if opset.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _import_domain(opsets: MutableSequence[OperatorSetIdProto]) -> None:
    if DOMAIN not in [opset.domain for opset in opsets]:
        opsets.append(helper.make_opsetid(DOMAIN, 1))


def _replaced(
    nodes: MutableSequence[NodeProto], opsets: Sequence[OperatorSetIdProto], path: str
) -> bool:
    """Whether these nodes, or those in their branches and bodies, had to be replaced."""
    if not any((one.domain, one.op_type) == ("", OPERATOR) for one in all_nodes(nodes)):
        return False
    for place in reversed(range(len(nodes))):
        node = nodes[place]
        for graph in subgraphs(node):
            _replaced(graph.node, opsets, path)
        if (node.domain, node.op_type) == ("", OPERATOR):
            first, *others = _read(node, opsets, path)
            node.CopyFrom(first)
            for number, other in enumerate(others, place + 1):
                nodes.insert(number, other)
    return True


def _read(node: NodeProto, opsets: Iterable[OperatorSetIdProto], path: str) -> list[NodeProto]:
    """The nodes that do what a node of TensorRT does."""
    where, stated = node_label(node, path), _attributes(node, path)
    kind = _kind(stated, where)
    ranks, size = _ranks(stated, kind, where)
    attributes: dict[str, Any] = {"group": f"ranks {ranks}" if ranks else "world"}
    attributes |= {"ranks": ranks} if ranks else {}
    attributes |= {"size": size} if size > 1 or ranks else {}
    if kind in _ROOTED:
        attributes["root"] = _position(stated.get("root", -1), ranks, where)
    reduction = stated.get("reduce_op", _NO_REDUCTION).lower()
    _check_reduction(kind, reduction, where)
    if kind not in REDUCING:
        return [_made(kind, node, node.output, attributes)]
    if reduction != _AVERAGE:
        return [_made(kind, node, node.output, {**attributes, "reduction": reduction})]
    if size < 2 and not ranks:
        raise ModelError(
            f"{where}: averages over an unknown number of ranks: nb_rank is {size}, expected the "
            "number of ranks."
        )
    _require_cast_like(opsets, where)
    whole = [f"{name}/sum" for name in node.output]
    summing = _made(kind, node, whole, {**attributes, "reduction": "sum"})
    return [summing, *_divided(node, whole[0], size)]


def _attributes(node: NodeProto, path: str) -> dict[str, Any]:
    """The attributes of TensorRT's node, texts as str."""
    return stated_attributes(node, path, _TYPES, "TensorRT's documents say")


def _kind(stated: dict[str, Any], where: str) -> Kind:
    name = stated.get("collective_operation", "")
    if name.lower() not in _KINDS:
        raise ModelError(
            f"{where}: the collective_operation is '{name}', expected {', '.join(_KINDS)}."
        )
    return _KINDS[name.lower()]


def _ranks(stated: dict[str, Any], kind: Kind, where: str) -> tuple[list[int], int]:
    """The ranks of the group, none for all, and their number, 1 if it is not stated."""
    ranks, size = list(stated.get("groups", ())), stated.get("nb_rank", 1)
    if stated.get("group_size", len(ranks)) != len(ranks):
        raise ModelError(
            f"{where}: has the groups {ranks} and the group_size {stated['group_size']}, expected "
            f"{len(ranks)}."
        )
    if ranks and size not in (1, len(ranks)) and kind not in _IN_ANY_ORDER:
        raise ModelError(
            f"{where}: has the groups {ranks} and the nb_rank {size}, expected {len(ranks)}: the "
            "shape of its result depends on it."
        )
    return ranks, len(ranks) or size


def _position(root: int, ranks: Sequence[int], where: str) -> int:
    if root < 0 or (ranks and root not in ranks):
        raise ModelError(
            f"{where}: has the root {root}, expected "
            f"{f'one of the ranks {list(ranks)}' if ranks else 'a rank'}."
        )
    return ranks.index(root) if ranks else root


def _check_reduction(kind: Kind, reduction: str, where: str) -> None:
    known = [*(one.value for one in Reduction), _AVERAGE] if kind in REDUCING else [_NO_REDUCTION]
    if reduction not in known:
        raise ModelError(
            f"{where}: has the reduce_op '{reduction}' with {_NAMES[kind]}, expected "
            f"{', '.join(known)}."
        )


def _require_cast_like(opsets: Iterable[OperatorSetIdProto], where: str) -> None:
    version = max((one.version for one in opsets if not one.domain), default=0)
    if version < _LEAST_OPSET:
        raise ModelError(
            f"{where}: averages, which needs opset {_LEAST_OPSET} or newer, and the file has "
            f"{version}. Export it again."
        )


def _made(
    kind: Kind, node: NodeProto, outputs: Iterable[str], attributes: dict[str, Any]
) -> NodeProto:
    return helper.make_node(
        kind.value, list(node.input), list(outputs), name=node.name, domain=DOMAIN, **attributes
    )


def _divided(node: NodeProto, whole: str, size: int) -> list[NodeProto]:
    """The nodes that divide a sum by the number of its summands, in the sum's own type."""
    name, (output,) = node.name or OPERATOR, node.output
    count = helper.make_tensor("", TensorProto.FLOAT, [], [size])
    made: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("Constant", [], [f"{output}/ranks"], {"value": count}),
        ("CastLike", [f"{output}/ranks", whole], [f"{output}/divisor"], {}),
        ("Div", [whole, f"{output}/divisor"], [output], {}),
    ]
    return [
        helper.make_node(op_type, inputs, outputs, name=f"{name}/{op_type}", **attributes)
        for op_type, inputs, outputs, attributes in made
    ]


def _require_written(node: NodeProto, call: Call, path: str) -> None:
    """Refuse what TensorRT has no word for."""
    where, ranks = node_label(node, path), list(call.group.ranks)
    if call.kind not in _NAMES or len(node.input) != 1:
        raise ModelError(
            f"{where}: TensorRT's {OPERATOR} has no {node.op_type} of {len(node.input)} tensors, "
            f"but of one tensor {', '.join(kind.value for kind in _NAMES)}."
        )
    if ranks != sorted(ranks) and call.kind not in _IN_ANY_ORDER:
        raise ModelError(
            f"{where}: its group is ranks {ranks}, and TensorRT does not say that it keeps this "
            "order: slice the model with ranks in ascending order."
        )


def _written(node: NodeProto, call: Call, world_size: int) -> NodeProto:
    """TensorRT's node for a call."""
    ranks = list(call.group.ranks)
    groups = [] if len(ranks) == world_size else ranks
    made = helper.make_node(
        OPERATOR,
        list(node.input),
        list(node.output),
        name=node.name,
        collective_operation=_NAMES[call.kind],
        reduce_op=call.reduction.value if call.kind in REDUCING else _NO_REDUCTION,
        root=ranks[call.root] if call.kind in _ROOTED else -1,
        nb_rank=len(ranks),
        group_size=len(groups),
    )
    made.attribute.append(helper.make_attribute("groups", groups, attr_type=AttributeProto.INTS))
    return made
