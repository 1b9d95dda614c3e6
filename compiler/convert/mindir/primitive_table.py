"""Primitive table: the primitives of a MindIR model, each with its attributes, once."""

from __future__ import annotations

from collections.abc import Mapping

from ...mindir.graph import Constant
from ...mindir.mindir_pb2 import ModelProto
from .attributes import constant_attribute

_PRIMITIVE, _FUNCTION = 1, 2
CLASSES = frozenset(
    {
        "AdaptiveAvgPool2D",
        "AllGather",
        "AllReduce",
        "AlltoAll",
        "AvgPool3D",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Broadcast",
        "CollectiveGather",
        "CollectiveScatter",
        "Conv2D",
        "Conv2DTranspose",
        "Conv3D",
        "Depend",
        "DepthToSpace",
        "IsNan",
        "LRN",
        "LSTM",
        "Load",
        "MakeTuple",
        "MaxPool",
        "MaxPool3D",
        "Mish",
        "Mod",
        "NeighborExchange",
        "Pad",
        "PadV3",
        "Partial",
        "Receive",
        "Reduce",
        "ReduceScatter",
        "SeLU",
        "Send",
        "Softplus",
        "Softsign",
        "SpaceToDepth",
        "StandardNormal",
        "Switch",
        "TensorScatterMax",
        "TensorScatterMin",
        "TensorScatterMul",
        "TensorScatterUpdate",
        "TensorToTuple",
        "TopK",
        "Tril",
        "TruncateDiv",
        "TupleGetItem",
        "UniformReal",
        "UpdateState",
    }
)
"""The primitives whose arguments beside tensors are attributes. Those of all others are inputs:
MindSpore 2.10 calls them primitive functions.
"""


class PrimitiveTable:
    """The records of a model; nodes refer to them by name."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._names: dict[bytes, str] = {}

    def reference(self, primitive: str, attributes: Mapping[str, Constant]) -> str:
        """The `op_type` of a node: it names the record of a primitive with these attributes."""
        records = [constant_attribute(name, value) for name, value in sorted(attributes.items())]
        identity = b"\0".join(
            [primitive.encode(), *(one.SerializeToString(deterministic=True) for one in records)]
        )
        if identity not in self._names:
            name = f"{primitive}:{len(self._names) + 1}"
            record = self._model.primitives.add(name=name, op_type=primitive)
            record.prim_type = _PRIMITIVE if primitive in CLASSES else _FUNCTION
            record.attribute.extend(records)
            self._names[identity] = name
        return f"REF::{self._names[identity]}"
