"""Equal primitives: those of .ms files whose inputs and attributes mean the same as in MindIR."""

from __future__ import annotations

PREFIX = "Lite."
"""The beginning of the names of all others: many differ from MindIR's of the same name."""
EQUAL_PRIMITIVES = frozenset(
    """
    Abs Assign AssignAdd Ceil Cos Depend Equal Erf Floor FloorDiv FloorMod GLU GatherD GatherNd
    Greater GreaterEqual IsFinite Less LessEqual LinSpace Log Log1p LogSoftmax LogicalAnd LogicalNot
    LogicalOr Maximum Minimum Mod Neg NotEqual OnesLike RealDiv Reciprocal ReverseSequence Round
    Rsqrt Select Sin Softmax Sqrt Square SquaredDifference TensorScatterAdd Tril Triu Unique
    ZerosLike
    """.split()
)


def primitive_name(name: str) -> str:
    """The name by which the lowering of a .ms primitive is found."""
    return name if name in EQUAL_PRIMITIVES else PREFIX + name
