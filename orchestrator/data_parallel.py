"""One model on several devices, each with a part of every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from ..comm.counted import counted
from ..comm.errors import InputError
from ..comm.serving.tensor_spec import dtype_named
from .inputs import array_of
from .orchestrator import Orchestrator
from .rows import joined, parts_of

Array = NDArray[Any]


class DataParallel:
    """A thin face of `Orchestrator(replicas=N)`: splits a batch over the replicas and joins what they answer."""

    def __init__(self, model: str, replicas: int | None = None, *, devices: Sequence[int] | None = None,
                 **options: Any) -> None:
        """`replicas` (by default as many as `devices` are for), `devices` and `options` are Orchestrator's."""
        self._orchestrator = Orchestrator(model, replicas=replicas, devices=devices, **options)
        self._replicas = len({rank.replica for rank in self._orchestrator.status().ranks})

    @property
    def orchestrator(self) -> Orchestrator:
        """For status, metrics and single requests."""
        return self._orchestrator

    def predict(self, *inputs: Any, timeout: float | None = -1) -> dict[str, Array]:
        """The outputs for a batch of any size, by name, row under row.

        `inputs` is a mapping from name to array, or the arrays in the model's order. What fits the model as it is, and
        scalars, goes to every replica. Raises what Orchestrator.predict raises, of the first part that failed.
        """
        specs = self._orchestrator.inputs()
        given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs
        if not isinstance(given, Mapping):
            if len(given) != len(specs):
                raise InputError(f"got {counted(len(given), 'input')}, expected {len(specs)}: "
                                 f"{[spec.name for spec in specs]}.")
            given = {spec.name: array for spec, array in zip(specs, given, strict=True)}
        if given.keys() != {spec.name for spec in specs}:
            raise InputError(f"got the inputs {list(given)}, expected {[spec.name for spec in specs]}.")
        parts = parts_of(specs, {
            spec.name: array_of(spec, dtype_named(spec.dtype), given[spec.name]) for spec in specs}, self._replicas)
        futures = [self._orchestrator.submit(part.inputs, timeout=timeout) for part in parts]
        try:
            return joined(parts, [future.result() for future in futures])
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the replicas."""
        self._orchestrator.close()

    def __enter__(self) -> DataParallel:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
