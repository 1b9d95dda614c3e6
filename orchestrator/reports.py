"""What ranks report once they are ready, checked: the orchestrator lays out memory by it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec

from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import Serving, decode_serving
from ..comm.serving.tensor_spec import TensorSpec, dtype_named

_MOST_BYTES = 1 << 48
"""Of one tensor: what processors can address."""


def read_report(rank: int, data: bytes) -> Serving:
    """The report of a rank; Nonsense where it is none."""
    try:
        report = decode_serving(data)
    except msgspec.DecodeError as error:
        raise Nonsense(rank, f"sent a report that cannot be read: {error}") from error
    for specs in (report.inputs, report.outputs):
        _check_specs(rank, specs)
    if not set(report.results) <= set(range(len(report.outputs))) or len(set(report.results)) < len(report.results):
        raise Nonsense(rank, f"reported the outputs {list(report.results)} of {len(report.outputs)}")
    return report


def check_tensor(rank: int, name: str, dtype: str, shape: Sequence[int]) -> None:
    """Nonsense where no tensor of plain numbers is like this; -1 in a shape is any size."""
    try:
        kind = dtype_named(dtype)
    except (TypeError, ValueError) as error:
        raise Nonsense(rank, f"reported {name!r} of the dtype {dtype!r}, which there is not") from error
    if kind.hasobject or not kind.itemsize:  # objects would be addresses in this process
        raise Nonsense(rank, f"reported {name!r} of the dtype {dtype!r}, which is none of numbers")
    if min(shape, default=0) < -1 or prod(map(abs, shape)) * kind.itemsize > _MOST_BYTES:
        raise Nonsense(rank, f"reported {name!r} of the shape {list(shape)}, which no tensor has")


def _check_specs(rank: int, specs: Sequence[TensorSpec]) -> None:
    for spec in specs:
        check_tensor(rank, spec.name, spec.dtype, spec.shape or ())
