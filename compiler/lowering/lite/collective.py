"""Collectives of .ms files: MindIR's, of a group by its name."""

from __future__ import annotations

from ..builder import Builder, Value, lowers
from .results import as_mindir

_REDUCTIONS = {"ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}


@lowers("Lite.AllGather")
def all_gather(b: Builder, x: Value, *, group: str, rank_size: int) -> Value:
    """MindIR's AllGather."""
    return as_mindir(b, "AllGather", x, group=group, rank_size=rank_size)


@lowers("Lite.ReduceScatter")
def reduce_scatter(b: Builder, x: Value, *, group: str, mode: str, rank_size: int) -> Value:
    """MindIR's ReduceScatter."""
    if mode not in _REDUCTIONS:
        raise ValueError(f"the reduction {mode} is not supported")
    return as_mindir(b, "ReduceScatter", x, group=group, op=_REDUCTIONS[mode], rank_size=rank_size)
