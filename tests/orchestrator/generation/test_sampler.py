"""Choices of tokens: against a plain computation with a full sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rankmesh.comm.errors import InputError
from rankmesh.orchestrator.generation.sampler import Sampler, logprob_of
from rankmesh.orchestrator.generation.sampling_settings import SamplingSettings

pytestmark = pytest.mark.pure

LOGITS = arrays.arrays(
    np.float32, st.integers(2, 60), elements=st.floats(-30, 30, width=32), unique=True
)


def plain(
    logits: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float
) -> dict[int, float]:
    """The tokens that may be chosen, and their probabilities, by a full sort."""
    weights = np.exp((logits - logits.max()).astype(np.float64) / temperature)
    order = np.argsort(-weights, kind="stable")[: top_k or None]
    whole = weights[order].sum()
    if top_p < 1:
        sums = np.cumsum(weights[order])
        order = order[: int(np.searchsorted(sums, top_p * whole)) + 1]
    order = order[weights[order] >= min_p]
    total = weights[order].sum()
    return {int(one): weights[one] / total for one in order}


@given(
    LOGITS,
    st.floats(0.2, 3),
    st.integers(0, 70),
    st.floats(0.05, 1),
    st.floats(0, 0.9),
    st.integers(0, 2**40),
)
def test_tokens_are_those_that_the_settings_leave(
    logits: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float, seed: int
) -> None:
    settings = SamplingSettings(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed
    )
    token, _ = Sampler(settings, [0], set()).choose(logits, [])
    allowed = plain(logits, temperature, top_k, top_p, min_p)
    edge = plain(logits, temperature, top_k, min(1.0, top_p * (1 + 1e-9)), min_p * (1 - 1e-9))
    assert token in allowed or token in edge


def test_tokens_come_as_often_as_they_are_probable() -> None:
    """4,000 draws at different places; within 4 standard deviations of each expectation."""
    logits = np.log(np.array([0.5, 0.2, 0.2, 0.06, 0.04], np.float32))
    sampler = Sampler(SamplingSettings(temperature=1.0, top_p=0.95, seed=3), [0], set())
    drawn = [sampler.choose(logits, [0] * place)[0] for place in range(4000)]
    for token, expected in plain(logits, 1.0, 0, 0.95, 0.0).items():
        spread = np.sqrt(4000 * expected * (1 - expected))
        assert abs(drawn.count(token) - 4000 * expected) < 4 * spread
    assert 4 not in drawn


def test_a_choice_depends_on_seed_and_place_alone() -> None:
    logits = np.zeros(1000, np.float32)
    settings = SamplingSettings(temperature=1.0, seed=5)
    first, second = (Sampler(settings, [0], set()) for _ in range(2))
    assert first.choose(logits, [1, 2]) == second.choose(logits, [3, 4])
    tokens = {first.choose(logits, [0] * place)[0] for place in range(50)}
    assert len(tokens) > 40
    other = Sampler(SamplingSettings(temperature=1.0, seed=6), [0], set())
    assert other.choose(logits, [1, 2]) != first.choose(logits, [1, 2])


@given(LOGITS)
def test_temperature_0_takes_the_best(logits: np.ndarray) -> None:
    token, _ = Sampler(SamplingSettings(top_k=3), [0], set()).choose(logits, [])
    assert token == logits.argmax()


def test_penalties_and_biases() -> None:
    logits = np.array([2.0, 1.5, -1.0, 1.2], np.float32)

    def best(generated: list[int], prompt: list[int] = [3], **settings: Any) -> int:  # noqa: B006
        return Sampler(SamplingSettings(**settings), prompt, {0}).choose(logits, generated)[0]

    assert best([0], presence_penalty=1.0) == 1
    assert best([0, 1, 1], frequency_penalty=0.4) == 0
    assert best([0, 0, 1, 1, 1], frequency_penalty=0.4) == 0
    assert best([0, 0, 0, 1, 1], frequency_penalty=0.4) == 3
    assert best([], prompt=[0], repetition_penalty=2.0) == 1
    assert best([1], prompt=[0, 9], repetition_penalty=2.0) == 3
    assert best([], logit_bias={2: 5.0, 99: 9.0}) == 2
    assert best([], min_tokens=1) == 1
    assert best([1], min_tokens=1) == 0


@given(LOGITS, st.integers(0, 20))
def test_logprobs(logits: np.ndarray, top: int) -> None:
    """Within 1e-5 of the logarithms of a softmax in float64."""
    shifted = (logits - logits.max()).astype(np.float64)
    logs = shifted - np.log(np.exp(shifted).sum())
    found = logprob_of(logits, 1, top)
    assert found.logprob == pytest.approx(logs[1], abs=1e-5)
    best = sorted(range(len(logs)), key=lambda one: -logs[one])[:top]
    assert list(found.top) == best
    assert [*found.top.values()] == pytest.approx([logs[one] for one in best], abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"temperature": -1}, "temperature: got -1, expected a number from 0.0"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"top_p": 0.0}, "top_p: got 0.0, expected more than 0.0"),
        ({"top_k": 1.5}, "top_k: got 1.5, expected a whole number from 0"),
        ({"max_tokens": 0}, "max_tokens: got 0, expected a whole number from 1"),
        ({"max_tokens": True}, "max_tokens: got True"),
        ({"logprobs": 21}, "logprobs: got 21"),
        ({"stop": [""]}, "stop: got '', expected texts of 1 to"),
        ({"stop": ["a"] * 65}, "stop: got more than 64"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias: got -1"),
        ({"logit_bias": dict.fromkeys(range(10_001), 1.0)}, "logit_bias: got 10001 tokens"),
        ({"repetition_penalty": 0.0}, "repetition_penalty: got 0.0, expected more"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        SamplingSettings(**settings)
