"""Work of a stretch: its segments and collectives, one after the other on tensors of the device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ...comm.collective_call import Kind
from ...comm.collectives.backend import ReceivedForm, TensorCollectives
from ..executors.base import DeviceRunnable, Runnable
from ..mindir.graph import TensorType
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

    @property
    def recordable(self) -> bool:
        """See DeviceWork."""
        return self._collectives is None or self._collectives.recordable

    def revision(self) -> Hashable:
        """See DeviceWork.revision."""
        return tuple(one.revision() for one in self._prepared.values())

    def compute(self, inputs: Sequence[Any], recording: bool) -> Sequence[Any]:
        """See DeviceWork.compute."""
        values = dict(zip(self._stretch.inputs, inputs, strict=True))
        for at, step in enumerate(self._stretch.steps):
            given = [values[name] for name in step.inputs]
            if isinstance(step, Segment):
                made = self._prepared[at].compute(given)
            else:
                assert self._collectives is not None
                received = self._received(step)
                made = self._collectives.enqueue(step.call, given, recording, received)
            values.update(zip(step.outputs, made, strict=True))
        return [values[name] for name in self._stretch.outputs]

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
