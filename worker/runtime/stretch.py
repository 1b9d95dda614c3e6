"""Stretches: consecutive steps of a plan whose values stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ..partition.plan import CollectiveStep, Plan, Segment, Step

StretchStep = Segment | CollectiveStep


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps on the device; `inputs` come from the host, `outputs` are wanted there."""

    steps: tuple[StretchStep, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def inside(self) -> set[str]:
        """The values that never leave the device."""
        made = {name for step in self.steps for name in step.outputs}
        return made - set(self.outputs)


def stretches(plan: Plan, on_device: Callable[[CollectiveStep], bool]) -> list[Step | Stretch]:
    """The steps of a plan, where consecutive ones that run on the device are one stretch.

    These are segments, and collectives of which `on_device` says so. Branches and loops with
    collectives run on the host.
    """
    found: list[Step | Stretch] = []
    for steps, rest in _runs(plan.steps, on_device):
        if any(isinstance(step, Segment) for step in steps):
            found.append(_stretch(steps, _wanted(plan, rest)))
        else:
            found.extend(steps)
    return found


def _runs(
    steps: Sequence[Step], on_device: Callable[[CollectiveStep], bool]
) -> Iterator[tuple[list[Step], Sequence[Step]]]:
    """Steps of the device that belong together, or one of the host, and the steps after them."""
    run: list[Step] = []
    for at, step in enumerate(steps):
        if isinstance(step, Segment) or isinstance(step, CollectiveStep) and on_device(step):
            run.append(step)
            continue
        if run:
            yield run, steps[at:]
        run = []
        yield [step], steps[at + 1 :]
    if run:
        yield run, ()


def _wanted(plan: Plan, rest: Sequence[Step]) -> Collection[str]:
    """The values that steps of the host, states or outputs of the plan take."""
    names = {signature.value for signature in plan.outputs}
    names.update(state.result for state in plan.states)
    return names.union(*(step.inputs for step in rest))


def _stretch(steps: Sequence[Step], wanted: Collection[str]) -> Stretch:
    chosen = tuple(step for step in steps if isinstance(step, (Segment, CollectiveStep)))
    made: dict[str, None] = {}
    taken: dict[str, None] = {}
    for step in chosen:
        taken.update(dict.fromkeys(name for name in step.inputs if name not in made))
        made.update(dict.fromkeys(step.outputs))
    return Stretch(chosen, tuple(taken), tuple(name for name in made if name in wanted))
