"""From requests to what a group runs at once, and from its answers to each request's result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from numpy.typing import NDArray

from ..comm.serving.orders import Answer, Serving
from ..comm.serving.tensor_arena import OwnedArena
from .batch_axes import BatchAxes
from .batching import Batcher, TakenBatch, take_one
from .counters import Counters
from .group import Group
from .inputs import Inputs, InputSpecs
from .joining import join, joint_shapes, split
from .outputs import in_order
from .queue import RequestQueue
from .request import Request
from .settings import BatchingSettings
from .work import Work

Array = NDArray[Any]


class Assembly:
    """For one model: what its requests look like, and how they are batched (None: each runs alone)."""

    def __init__(self, report: Serving, arena: OwnedArena, batching: BatchingSettings | None,
                 counters: Counters) -> None:
        """Raises UsageError where the model cannot be batched."""
        self.report = report
        self.inputs = InputSpecs(report.path, report.inputs, arena)
        self.outputs = report.outputs
        self._arena, self._counters = arena, counters
        self._axes = BatchAxes.of(report.inputs, report.outputs, batching.inputs) if batching else None
        self.batches = batching is not None
        self.take: Callable[[RequestQueue, float], TakenBatch] = (
            Batcher(batching.max_batch, batching.max_delay).take if batching else take_one)
        """The requests to run together now, and those that left the queue unanswered."""

    def kind(self, inputs: Inputs, every: bool) -> tuple[Hashable, int]:
        """What a request shares with those it may run with (None: it runs alone), and how many rows it has."""
        if self._axes is None or every:
            return None, 1
        rows, kind = self._axes.rows_and_kind(inputs.arrays)
        return kind, rows

    def joined(self, requests: Sequence[Request]) -> Inputs:
        """The inputs of all of them as one."""
        if len(requests) == 1:
            only: Inputs = requests[0].inputs[0]
            return only
        assert self._axes is not None
        arrays = [request.inputs[0].arrays for request in requests]
        inputs = self.inputs.laid_out(joint_shapes(self._axes, arrays))
        join(self._axes, arrays, inputs.arrays)
        return inputs

    def results(self, group: Group, work: Work, answers: Sequence[Answer]) -> list[Any]:
        """One per request: its outputs by name, or for who asked for all ranks' a list of those, in rank order.

        Raises ModelError where outputs of a batch cannot be told apart.
        """
        outputs = group.outputs
        assert outputs is not None and work.inputs is not None
        leased = not self._arena.crowded
        if not leased:
            self._counters.count("copied_results")
        if len(answers) == 1 and len(work.requests) == 1 and not work.requests[0].inputs[1]:  # the same, sooner
            return [outputs.arrays(answers[0], work.given[0], work.regions[0], work.inputs, leased)]
        by_rank = [outputs.arrays(answer, given, region, work.inputs, leased)
                   for answer, given, region in zip(answers, work.given, work.regions, strict=True)]
        if work.requests[0].inputs[1]:
            return [[in_order(outputs.specs, found) for found in by_rank]]
        together = in_order(outputs.specs, {name: array for found in by_rank for name, array in found.items()})
        if len(work.requests) == 1 or self._axes is None:
            return [together]
        return split(self._axes, together, [request.rows for request in work.requests])
