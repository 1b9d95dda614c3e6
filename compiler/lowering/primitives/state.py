"""State: the primitives that assign to parameters, which keep the result for the next request."""

from __future__ import annotations

from ..builder import Builder, Value, arithmetic, lowering_of, lowers, lowers_each

_REDUCTIONS = ("Update", "Add", "Sub", "Mul", "Max", "Min")


@lowers_each("plain", {f"ScatterNd{name}": f"TensorScatter{name}" for name in _REDUCTIONS})
def scatter_nd(b: Builder, variable: Value, indices: Value, updates: Value, *, plain: str) -> Value:
    """variable with the updates at the indices; `plain` computes the same without a parameter."""
    return lowering_of(plain).lower(b, (variable, indices, updates))


@lowers_each("plain", {f"Scatter{name}": f"TensorScatter{name}" for name in _REDUCTIONS})
def scatter_rows(
    b: Builder, variable: Value, indices: Value, updates: Value, *, plain: str
) -> Value:
    """variable with the updates in the rows that the indices name."""
    return scatter_nd(
        b, variable, b.op("Unsqueeze", b.tensor(indices), (-1,)), updates, plain=plain
    )


@lowers("InplaceIndexAdd")
def index_add(
    b: Builder, variable: Value, indices: Value, updates: Value, *, axis: int = 0
) -> Value:
    """variable with slices added."""
    return lowering_of("IndexAdd").lower(b, (variable, indices, updates), {"axis": axis})


@lowers("Assign")
def assign(b: Builder, variable: Value, value: Value) -> Value:
    """value."""
    return value


@lowers_each("op_type", {"AssignAdd": "Add", "AssignSub": "Sub"})
def assign_sum(b: Builder, variable: Value, value: Value, *, op_type: str) -> Value:
    """variable + value, or minus."""
    return arithmetic(b, op_type, variable, value)
