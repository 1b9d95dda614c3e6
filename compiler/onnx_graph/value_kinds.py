"""Value kinds: finds values that are not tensors of numbers or bools, and makes one error of them.

A model may have such values inside. Its inputs and outputs must be tensors, as must all values that
pass between its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from ...comm.errors import ModelError

TEXTS = "a tensor of texts"
_MAP = "a map"
_MAPS = "a sequence of maps"
_SEQUENCE = "a sequence of tensors"
_OPTIONAL = "an optional value"
_SPARSE = "a sparse tensor"
_REMEDIES = {
    TEXTS: "turn texts into numbers before the request, and leave the nodes of texts out, or have "
    "an orchestrator run the model whole, as one rank in onnxruntime",
    _MAP: "pass a tensor, and leave the nodes out that look into the map",
    _MAPS: "export the classifier without its ZipMap; skl2onnx does by options={'zipmap': False}",
    _SEQUENCE: "have each tensor as an input or output of its own, or all as one tensor "
    "(ConcatFromSequence)",
    _OPTIONAL: "export the model with a tensor that is always there, or without it",
    _SPARSE: "export the model with a dense tensor",
}
_MADE = {
    **dict.fromkeys(
        ("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceMap"),
        _SEQUENCE,
    ),
    **{"SplitToSequence": _SEQUENCE, "Optional": _OPTIONAL, "ZipMap": _MAPS},
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit"), TEXTS),
}
"""The kind of what an operator gives, for those that give only one kind.

onnx could tell, too, but the table of operators that it makes for that takes 5 MB of each rank.
"""
_NUMBERS = ("StringSplit", 1)
"""The one further output of these that is of numbers."""


def refuse_other_kinds(model: ModelProto, path: str, texts: bool = False) -> None:
    """Raise ModelError where the model takes or gives something else than tensors of numbers and
    bools; `texts` are taken, too, where onnxruntime runs the whole model.
    """
    found = list(_other_ends(model))
    for end, kind in sorted(found, key=lambda one: one[1] == TEXTS):  # texts have a way out
        if kind != TEXTS or not texts:
            raise refusal(path, end, kind)


def _other_ends(model: ModelProto) -> Iterator[tuple[str, str]]:
    """The inputs and outputs of other kinds, and their kinds."""
    graph, kinds = model.graph, ValueKinds(model)
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [info.name for info in graph.input if info.name not in weights]
    outputs = [info.name for info in graph.output]
    for what, names in (("input", inputs), ("output", outputs)):
        for name in names:
            if kinds.of(name):
                yield f"{what} '{name}'", kinds.of(name)


def refusal(path: str, what: str, kind: str) -> ModelError:
    """The error for a value of a kind that ValueKinds tells."""
    return ModelError(
        f"{path}: the {what} is {kind}, and ranks take and give tensors of numbers and bools: "
        f"{_REMEDIES[kind]}."
    )


class ValueKinds:
    """The kinds of the values of a model that are not tensors of numbers or bools.

    The types of an operator's schema count first, then those that the model declares.
    """

    def __init__(self, model: ModelProto) -> None:
        self._producers: dict[str, tuple[NodeProto, int]] = {}
        self._declared: dict[str, str] = {}
        self._add(model.graph)

    def of(self, name: str) -> str:
        """The kind of a value; "" for a tensor of numbers or bools, and an unknown one."""
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            if name not in self._producers:
                return self._declared.get(name, "")
            node, index = self._producers[name]
            source = _source(node, index)
            if not source:
                return given_kind(node, index) or self._declared.get(name, "")
            name = source
        return ""

    def _add(self, graph: GraphProto) -> None:
        for info in (*graph.input, *graph.value_info, *graph.output):
            self._declared.setdefault(info.name, _declared_kind(info.type))
        for tensor in graph.initializer:
            text = tensor.data_type == TensorProto.STRING
            self._declared[tensor.name] = TEXTS if text else ""
        for node in graph.node:
            self._producers.update(
                (name, (node, index)) for index, name in enumerate(node.output) if name
            )
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self._add(attribute.g)


def given_kind(node: NodeProto, index: int) -> str:
    """The kind of an operator's output, where all types that it may have are of one kind."""
    known = node.domain in ("", "ai.onnx", "ai.onnx.ml") and (node.op_type, index) != _NUMBERS
    return _MADE.get(node.op_type, "") if known else ""


def _source(node: NodeProto, index: int) -> str:
    """The value that an output is one of, for nodes that hand values on; "" for all others."""
    graphs: Mapping[str, GraphProto] = {one.name: one.g for one in node.attribute}
    if node.op_type == "If" and "then_branch" in graphs:
        return _at((info.name for info in graphs["then_branch"].output), index)
    if node.op_type == "Loop" and "body" in graphs and index < len(node.input) - 2:
        return _at((info.name for info in graphs["body"].output), index + 1)
    return node.input[0] if node.op_type == "Identity" and node.input else ""


def _at(names: Iterable[str], index: int) -> str:
    return next((name for at, name in enumerate(names) if at == index), "")


def _declared_kind(declared: TypeProto) -> str:
    kind = declared.WhichOneof("value")
    if kind == "tensor_type":
        return TEXTS if declared.tensor_type.elem_type == TensorProto.STRING else ""
    if kind == "sequence_type":
        inner = declared.sequence_type.elem_type.WhichOneof("value")
        return _MAPS if inner == "map_type" else _SEQUENCE
    return {"map_type": _MAP, "optional_type": _OPTIONAL, "sparse_tensor_type": _SPARSE}.get(
        kind or "", ""
    )
