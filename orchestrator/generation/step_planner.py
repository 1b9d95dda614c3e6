"""Step planner: decides which sequences get how many tokens into the next step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..config.generation_settings import GenerationSettings
from .sequence import Sequence

_SUSPECT = 2
"""Steps of a sequence in which ranks have died, until it runs alone."""


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A sequence and how many of its tokens come new; whether its next token is then known."""

    sequence: Sequence
    count: int

    @property
    def wanted(self) -> bool:
        """Whether all known tokens are in the memory after the step."""
        return self.count == self.sequence.pending


def plan_step(running: Iterable[Sequence], settings: GenerationSettings) -> list[PlannedRow]:
    """The rows of the next step, in the order of slots.

    Each sequence that decodes gets its one token. Prompts share what is left of the step's tokens,
    the oldest of the highest priority first; beside decoding sequences that is at least one token,
    so that none starves. A sequence in whose last steps ranks have died runs alone: no other is
    then taken for the cause.
    """
    running = [*running]
    suspects = [one for one in running if one.failed_steps >= _SUSPECT]
    if suspects:
        running = [min(suspects, key=lambda one: one.id)]
    decoding, filling = list[Sequence](), list[Sequence]()
    for sequence in running:
        (decoding if sequence.pending == 1 else filling).append(sequence)
    budget = settings.step_tokens - len(decoding) if decoding else settings.prompt_tokens
    rows = [PlannedRow(one, 1) for one in decoding]
    budget = max(budget, 1)
    for sequence in sorted(filling, key=lambda one: (-one.priority, one.id)):
        count = min(sequence.pending, budget)
        if count:
            rows.append(PlannedRow(sequence, count))
            budget -= count
    return sorted(rows, key=lambda row: row.sequence.slot)
