"""Answer arrays: the outputs of an answer, in the memory that ranks wrote."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...comm.request_memory.tensor_arena import ArenaRegion, TensorArena
from ...comm.serving.tensor_spec import dtype_named
from ..endpoint.messages import Answered, OutputPlace
from ..requests.request import Outputs, Result
from ..requests.request_inputs import Inputs


class _AnswerRegion(ArenaRegion):
    """The memory of one answer; the orchestrator is told once no array of it is left."""

    __slots__ = ("_forget", "_inputs", "_number")

    def __init__(
        self,
        arena: TensorArena,
        answer: Answered,
        inputs: Inputs | None,
        forget: Callable[[int], None],
    ) -> None:
        places = [place for one in answer.outputs for place in one]
        start = min((place.offset for place in places), default=0)
        self._number = answer.number
        self._inputs = inputs
        self._forget = forget
        super().__init__(arena, start, max(map(_end, places), default=start) - start)

    def __del__(self) -> None:
        self._forget(self._number)


def result_of(
    answer: Answered,
    every_rank: bool,
    inputs: Inputs,
    arena: TensorArena,
    forget: Callable[[int], None],
) -> Result:
    """The outputs of an answer by name, with `every_rank` those of each rank.

    `forget` is called with the answer's number once no array is left, in any thread. An output may
    be one of the `inputs` handed on, which are kept then.
    """
    handed_on = any(_within(place, inputs.region) for one in answer.outputs for place in one)
    region = _AnswerRegion(arena, answer, inputs if handed_on else None, forget)
    found = [_arrays(region, places) for places in answer.outputs]
    return found if every_rank else found[0]


def _arrays(region: ArenaRegion, places: list[OutputPlace]) -> Outputs:
    return {
        one.name: region.array(one.offset - region.offset, dtype_named(one.dtype), one.shape)
        for one in places
    }


def _end(place: OutputPlace) -> int:
    return place.offset + prod(place.shape) * dtype_named(place.dtype).itemsize


def _within(place: OutputPlace, region: ArenaRegion) -> bool:
    return region.offset <= place.offset < region.offset + region.size
