"""Remote model: one version of a model of another process's orchestrator."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...comm.errors import DeadlineExceeded
from ...comm.serving.tensor_spec import TensorSpec
from ..endpoint.messages import Answered, SentRequest, VersionCard
from ..requests.inputs import Buffers, InputSpecs
from ..requests.request import Request, Result
from ..requests.request_inputs import Inputs
from ..requests.string_outputs import StringOutputs
from ..scheduling.request_client import GivenInputs
from .answer_arrays import result_of
from .granted_memory import GrantedMemory, GrantedRegion
from .link import EndpointLink, Told, required


class RemoteModel:
    """Sends requests to one version of a model, from any thread."""

    def __init__(
        self, name: str, card: VersionCard, link: EndpointLink, memory: GrantedMemory
    ) -> None:
        self.name = name
        self.card = card
        self.specs = InputSpecs(card.path, card.inputs, memory)
        self._strings = StringOutputs(card.outputs)
        self._link = link
        self._memory = memory

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, in the model's order."""
        return self.card.inputs

    def written(self, given: GivenInputs) -> Inputs:
        """The inputs of a request in memory that ranks read; may wait for that memory.

        Raises InputError, OutOfMemory.
        """
        if isinstance(given, Buffers):
            return given.taken(self.specs)
        return self.specs.copied(given)

    def send(
        self,
        inputs: Inputs,
        timeout: float | None,
        priority: int,
        every_rank: bool,
        named: bool,
        told: Callable[[Told], None],
    ) -> int:
        """Send a request; `told` gets the answer, or an error. Gives its number. Raises Closed."""
        shapes = tuple(part.shape for part in inputs.layout.parts)
        version, offset = self.card.version, inputs.region.offset

        def message(number: int) -> SentRequest:
            return SentRequest(
                number, self.name, version, named, offset, shapes, timeout, priority, every_rank
            )

        deadline = None if timeout is None else time.monotonic() + timeout
        return self._link.ask(message, told, deadline)

    def abandon(self, request: Request) -> None:
        """See RequestDropper."""
        if request.drop():
            assert isinstance(request.inputs, Inputs)
            spoil(request.inputs)
            self._link.cancel(request.id)

    def result(self, told: Told, inputs: Inputs, every_rank: bool) -> Result:
        """The result of what a request was told; raises its error."""
        if isinstance(told, DeadlineExceeded):
            spoil(inputs)
        answer = required(told, Answered)
        found = result_of(answer, every_rank, inputs, self._memory.arena, self._link.forget)
        return self._strings.unpacked(found)


def spoil(inputs: Inputs) -> None:
    """Ranks may read these inputs for longer than this program knows: they are given back."""
    if isinstance(inputs.region, GrantedRegion):
        inputs.region.spoiled = True
