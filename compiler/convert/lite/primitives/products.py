"""Products in .ms files: of matrices, and recurrent layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....element_types.value_types import TupleType
from ...mindir.values import MindirValue, ResultType
from .registry import translates

if TYPE_CHECKING:
    from ..nodes.lite_nodes import LiteNodes


@translates("MatMul", "BatchMatMul")
def matmul(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    y: MindirValue,
    transpose_a: MindirValue,
    transpose_b: MindirValue,
) -> MindirValue:
    """A MatMulFusion."""
    flags = {"transpose_a": bool(transpose_a.constant), "transpose_b": bool(transpose_b.constant)}
    found = b.node("MatMulFusion", [x, y], kind, **flags)
    b.product(found, found)
    return found


@translates("MatMulExt")
def matmul_ext(b: LiteNodes, kind: ResultType, x: MindirValue, y: MindirValue) -> MindirValue:
    """A MatMulFusion of stacks."""
    return b.node("MatMulFusion", [x, y], kind)


@translates("LSTM")
def lstm(
    b: LiteNodes,
    kind: ResultType,
    x: MindirValue,
    h: MindirValue,
    c: MindirValue,
    weights: MindirValue,
    **attributes: Any,
) -> MindirValue:
    """An LSTM with its weights in one tensor, as MindIR has them."""
    assert isinstance(kind, TupleType) and kind.items
    attributes["num_directions"] = 2 if attributes["bidirectional"] else 1
    return b.several(b.nodes("LSTM", [x, h, c, weights], kind.items[:3], **attributes))
