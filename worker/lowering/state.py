"""The primitives that assign to parameters."""

from __future__ import annotations

from .builder import Builder, Value
from .math import arithmetic
from .registry import Lower, lowering_of, lowers


def _scatter(plain: str, expanded: bool) -> Lower:
    def lower(b: Builder, variable: Value, indices: Value, updates: Value) -> Value:
        at = b.op("Unsqueeze", b.tensor(indices), (-1,)) if expanded else indices
        lowering = lowering_of(plain)
        assert lowering is not None  # gather.py has all of them
        return lowering.function(b, variable, at, updates)

    return lower


for _primitive in ("Update", "Add", "Sub", "Mul", "Max", "Min"):
    lowers(f"Scatter{_primitive}")(_scatter(f"TensorScatter{_primitive}", expanded=True))
    lowers(f"ScatterNd{_primitive}")(_scatter(f"TensorScatter{_primitive}", expanded=False))


@lowers("InplaceIndexAdd")
def index_add(b: Builder, variable: Value, indices: Value, updates: Value, *, axis: int = 0) -> Value:
    """variable with slices added, which the parameter keeps."""
    lowering = lowering_of("IndexAdd")
    assert lowering is not None  # scatter.py has it
    return lowering.function(b, variable, indices, updates, axis=axis)


@lowers("Assign")
def assign(b: Builder, variable: Value, value: Value) -> Value:
    """value, which the parameter keeps."""
    return value


@lowers("AssignAdd")
def assign_add(b: Builder, variable: Value, value: Value) -> Value:
    """variable + value, which the parameter keeps."""
    return arithmetic(b, "Add", variable, value)


@lowers("AssignSub")
def assign_sub(b: Builder, variable: Value, value: Value) -> Value:
    """variable - value, which the parameter keeps."""
    return arithmetic(b, "Sub", variable, value)
