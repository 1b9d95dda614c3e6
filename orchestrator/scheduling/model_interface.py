"""Interface of one model: its inputs and outputs, and how its requests are joined."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.orders import ModelReport
from ..config.published_model import PublishedModel
from ..config.settings import BatchingSettings
from ..requests.batch_axes import BatchAxes, join, joint_shapes
from ..requests.inputs import InputSpecs
from ..requests.request import Request
from ..requests.request_inputs import RequestInputs


class ModelInterface:
    """Inputs and outputs of one model, by the report of its first ranks."""

    def __init__(
        self,
        report: ModelReport,
        arena: OwnedArena,
        batching: BatchingSettings | None,
        published: PublishedModel | None = None,
    ) -> None:
        """Requests are joined as `batching` says; None: never. UsageError where that cannot be."""
        self.report = report
        self.published = published
        """The form in which clients see the model; None: as its file has it."""

        self.inputs = InputSpecs(report.path, report.inputs, arena)
        self.axes: BatchAxes | None = None
        """Which dimensions count rows; None where requests are never joined."""

        if batching is not None:
            self.axes = BatchAxes.of(report.inputs, report.outputs, batching.inputs)

    def kind(self, inputs: RequestInputs, every_rank: bool) -> tuple[Hashable, int]:
        """The kind of a request, equal for those it may run with (None: it runs alone), and its
        rows.
        """
        if self.axes is None or every_rank:
            return None, 1
        rows, kind = self.axes.rows_and_kind(inputs.arrays)
        return kind, rows

    def joined(self, requests: Sequence[Request]) -> RequestInputs:
        """The inputs of requests of one kind, row under row."""
        if len(requests) == 1 or self.axes is None:
            return requests[0].inputs
        arrays = [request.inputs.arrays for request in requests]
        inputs = self.inputs.laid_out(joint_shapes(self.axes, arrays))
        join(self.axes, arrays, inputs.arrays)
        return inputs
