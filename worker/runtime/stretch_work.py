"""Work of a stretch: its segments and collectives, one after the other on tensors of the device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any, cast

from ...comm.collective_call import Kind
from ...comm.collectives.backend import ReceivedForm, TensorCollectives
from ...compiler.element_types.value_types import TensorType
from ..executors.base import DeviceRunnable, Runnable, WorkRecording
from ..partition.plan import CollectiveStep, Segment
from .stretch import Stretch


class StretchWork:
    """See DeviceWork."""

    def __init__(
        self,
        stretch: Stretch,
        prepared: Mapping[int, Runnable],
        collectives: TensorCollectives | None,
        types: Mapping[str, TensorType],
    ) -> None:
        """`prepared` has the segment of each step that is one, `types` those of received values."""
        self._types = types
        self._stretch = stretch
        self._prepared = {at: cast(DeviceRunnable, one) for at, one in prepared.items()}
        self._collectives = collectives if len(prepared) < len(stretch.steps) else None
        steps = range(len(stretch.steps))
        alone = self._collectives is not None and not self._collectives.recordable
        self._parts = [
            tuple(part)
            for _, part in groupby(steps, lambda at: alone and (-1 if at in prepared else at))
        ]
        """The steps, by their numbers: those that are captured together, or one collective."""

    @property
    def recordable(self) -> bool:
        """See DeviceWork."""
        if self._collectives is None:
            return True
        return self._collectives.recordable or self._collectives.repeatable

    def revision(self) -> Hashable:
        """See DeviceWork.revision."""
        return tuple(one.revision() for one in self._prepared.values())

    def compute(
        self, inputs: Sequence[Any], recording: WorkRecording | None = None
    ) -> Sequence[Any]:
        """See DeviceWork.compute."""
        values = dict(zip(self._stretch.inputs, inputs, strict=True))
        for part in self._parts:
            if recording is None:
                made = self._made(part, values, False)
            elif self._is_exchange(part):
                given = {name: values[name] for name in self._stretch.steps[part[0]].inputs}
                made = self._made(part, given, True)
                recording.repeat(partial(self._made, part, given, False))
            else:
                made = recording.capture(partial(self._made, part, values, True))
            names = [name for at in part for name in self._stretch.steps[at].outputs]
            values.update(zip(names, made, strict=True))
        return [values[name] for name in self._stretch.outputs]

    def _made(
        self, part: Sequence[int], around: Mapping[str, Any], recording: bool
    ) -> Sequence[Any]:
        """Put some of the steps into the queue; what all of them make."""
        values, found = dict(around), list[Any]()
        for at in part:
            step = self._stretch.steps[at]
            given = [values[name] for name in step.inputs]
            if isinstance(step, Segment):
                made = self._prepared[at].compute(given)
            else:
                assert self._collectives is not None
                received = self._received(step)
                made = self._collectives.enqueue(step.call, given, recording, received)
            values.update(zip(step.outputs, made, strict=True))
            found.extend(made)
        return found

    def _is_exchange(self, part: Sequence[int]) -> bool:
        """Whether a part is a collective that the device cannot capture."""
        own = self._collectives is not None and not self._collectives.recordable
        return own and isinstance(self._stretch.steps[part[0]], CollectiveStep)

    def _received(self, step: CollectiveStep) -> Sequence[ReceivedForm]:
        """The forms of the values that come from another rank: the file says them."""
        if step.call.kind is not Kind.RECEIVE:
            return ()
        kinds = [self._types[name] for name in step.outputs]
        return [ReceivedForm(one.dtype, one.shape or ()) for one in kinds]

    def recorded(self) -> Any:
        """See DeviceWork.recorded."""
        return self._collectives.recorded() if self._collectives else ()

    @contextmanager
    def following(self, recorded: Any) -> Iterator[Callable[[], None] | None]:
        """See DeviceWork.following."""
        if self._collectives is None:
            yield None
        else:
            with self._collectives.following(recorded or ()) as check:
                yield check
