"""Bound steps: the steps of a program on arrays that stay the same from run to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...comm.arrays import Array
from ...comm.errors import ModelError
from .steps import ReadyCollective, ReadySegment, ReadyStep


def bind_steps(
    steps: Sequence[ReadyStep],
    given: Mapping[str, Array],
    rooms: Mapping[str, Array],
    path: str,
) -> Callable[[], object]:
    """A call that runs steps on the arrays `given` and writes results into `rooms`; values between
    steps get arrays of their own, in the shapes that one run gives them. ModelError, which names
    `path`, for branches and loops.
    """
    values, calls = dict(given), list[Callable[[], object]]()
    for step in steps:
        if not isinstance(step, ReadySegment | ReadyCollective):
            raise ModelError(f"{path}: has branches or loops, which are not bound in place.")
        step.run_into(values, rooms)
        calls.append(step.bound(values))
    return calls[0] if len(calls) == 1 else partial(_run_all, calls)


def _run_all(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()
