"""Work of a stretch: its segments and collectives, one after the other on tensors of the device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ...comm.collectives.backend import TensorCollectives
from ..executors.base import DeviceRunnable, Runnable
from ..partition.plan import Segment
from .stretch import Stretch


class StretchWork:
    """See DeviceWork."""

    def __init__(
        self,
        stretch: Stretch,
        prepared: Mapping[int, Runnable],
        collectives: TensorCollectives | None,
    ) -> None:
        """`prepared` has the segment of each step that is one."""
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
                made = self._collectives.enqueue(step.call, given, recording)
            values.update(zip(step.outputs, made, strict=True))
        return [values[name] for name in self._stretch.outputs]

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
