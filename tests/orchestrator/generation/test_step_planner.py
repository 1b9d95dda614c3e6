"""Plans of steps: what decodes goes on in each step, prompts share the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.serving.steps import numbers_of
from rankmesh.orchestrator.config.generation_settings import GenerationSettings
from rankmesh.orchestrator.generation.sampler import Sampler
from rankmesh.orchestrator.generation.sampling_settings import SamplingSettings
from rankmesh.orchestrator.generation.sequence import Sequence
from rankmesh.orchestrator.generation.step_orders import step_order
from rankmesh.orchestrator.generation.step_planner import plan_step
from rankmesh.orchestrator.generation.text_stream import TextStream
from rankmesh.orchestrator.generation.text_tokenizer import NoText

pytestmark = pytest.mark.pure

SETTINGS = SamplingSettings()


def sequence(number: int, prompt: int, length: int = 0, priority: int = 0) -> Sequence:
    """A text in the slot of its number, of whose prompt `length` tokens are in the memory."""
    tokens = [*range(prompt)]
    made = Sequence(
        number,
        tokens,
        SETTINGS,
        10,
        set(),
        Sampler(SETTINGS, tokens, set()),
        TextStream(NoText(), ()),
        lambda sequence, error: None,
        priority=priority,
    )
    made.slot, made.length = number, length
    return made


def counts(rows: list) -> dict[int, int]:
    return {row.sequence.slot: row.count for row in rows}


def test_prompts_share_what_decoding_leaves() -> None:
    settings = GenerationSettings(step_tokens=8, prompt_tokens=100)
    running = [sequence(0, 5, 4), sequence(1, 20), sequence(2, 6, 5), sequence(3, 30)]
    assert counts(plan_step(running, settings)) == {0: 1, 1: 6, 2: 1}
    assert counts(plan_step(running[1:2], settings)) == {1: 20}
    assert counts(plan_step([sequence(1, 70), sequence(2, 70)], settings)) == {1: 70, 2: 30}


def test_higher_priorities_go_first() -> None:
    settings = GenerationSettings(prompt_tokens=10)
    running = [sequence(0, 50), sequence(1, 50, priority=1)]
    assert counts(plan_step(running, settings)) == {1: 10}


def test_a_sequence_in_whose_steps_ranks_died_runs_alone() -> None:
    running = [sequence(0, 5, 4), sequence(1, 3), sequence(2, 4)]
    running[1].failed_steps = running[2].failed_steps = 2
    assert counts(plan_step(running, GenerationSettings())) == {1: 3}


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 39)), max_size=12),
    st.integers(1, 20),
    st.integers(1, 60),
)
def test_each_plan_makes_progress_and_starves_nobody(
    sequences: list[tuple[int, int]], step_tokens: int, prompt_tokens: int
) -> None:
    running = [
        sequence(at, prompt, min(length, prompt - 1))
        for at, (prompt, length) in enumerate(sequences)
    ]
    settings = GenerationSettings(step_tokens=step_tokens, prompt_tokens=prompt_tokens)
    found = counts(plan_step(running, settings))
    decoding = [one for one in running if one.pending == 1]
    assert all(found[one.slot] == 1 for one in decoding)
    assert bool(found) == bool(running)
    assert [*found] == sorted(found)
    most = max(len(decoding) + 1, step_tokens) if decoding else prompt_tokens
    assert sum(found.values()) <= most
    filling = [one for one in running if one.pending > 1]
    if filling:
        assert found[filling[0].slot] >= 1


def test_an_order_has_the_sequences_that_rest() -> None:
    """Ranks carry their kept rows on, whatever slots the step has besides."""
    running = {one.slot: one for one in (sequence(0, 5, 4), sequence(2, 20, 7), sequence(5, 9, 3))}
    rows = plan_step([running[0]], GenerationSettings())
    order = step_order(running, rows, rows, 0, 1, ())
    found = [numbers_of(one).tolist() for one in (order.slots, order.lengths, order.counts)]
    assert found == [[0, 2, 5], [4, 7, 3], [1, 0, 0]]
    assert numbers_of(order.tokens).tolist() == [4]
    assert numbers_of(order.wanted).tolist() == [0]
