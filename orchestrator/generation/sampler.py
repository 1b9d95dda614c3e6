"""Sampler: chooses the next token of one text from its logits.

A token's random number depends on the seed and its place alone, by a counter-based generator
(Philox, Salmon et al. 2011), so that a text that is generated again is the same. No vocabulary is
sorted: only tokens above a threshold are, which sinks until they are enough.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .results import TokenLogprob
from .sampling_settings import SamplingSettings

Logits = NDArray[np.float32]
_FIRST_GAP = 12.0
"""How far below the best logit candidates lie at first: e^-12 of its probability."""


class Sampler:
    """Chooses the tokens of one text, one after the other."""

    def __init__(self, settings: SamplingSettings, prompt: Sequence[int], ends: set[int]) -> None:
        """`ends` are the tokens that end the text."""
        self._settings = settings
        seed = secrets.randbits(63) if settings.seed is None else settings.seed
        self._seed = seed % (1 << 64)
        self._ends = np.array(sorted(ends), np.int64)
        self._prompt = np.unique(np.array(prompt, np.int64))
        self._biased = np.array(list(settings.logit_bias), np.int64)
        self._biases = np.array(list(settings.logit_bias.values()), np.float32)

    def choose(self, logits: Logits, generated: Sequence[int]) -> tuple[int, TokenLogprob | None]:
        """The next token, and its logarithm where that is asked for. `logits` are not changed."""
        token = self._chosen(self._adjusted(logits, generated), len(generated))
        wanted = self._settings.logprobs
        return token, None if wanted is None else logprob_of(logits, token, wanted)

    def _adjusted(self, logits: Logits, generated: Sequence[int]) -> Logits:
        """The logits with biases and penalties."""
        settings, vocabulary = self._settings, len(logits)
        if settings.greedy or not (self._changes or len(generated) < settings.min_tokens):
            return logits
        found = logits.copy()
        tokens, counts = np.unique(np.array(generated, np.int64), return_counts=True)
        if settings.repetition_penalty != 1.0:
            there = np.union1d(self._prompt, tokens)
            there = there[there < vocabulary]
            found[there] = _repeated(found[there], settings.repetition_penalty)
        found[tokens] -= settings.presence_penalty + settings.frequency_penalty * counts
        known = self._biased < vocabulary
        found[self._biased[known]] += self._biases[known]
        if len(generated) < settings.min_tokens:
            found[self._ends[self._ends < vocabulary]] = -np.inf
        return found

    @property
    def _changes(self) -> bool:
        one = self._settings
        penalties = one.presence_penalty or one.frequency_penalty
        return bool(one.logit_bias or penalties or one.repetition_penalty != 1.0)

    def _chosen(self, logits: Logits, place: int) -> int:
        settings = self._settings
        if not settings.temperature:
            return int(logits.argmax())
        scaled = (logits - logits.max()).astype(np.float64) / settings.temperature
        chance = self._chance(place)
        if settings.top_k == 0 and settings.top_p == 1.0 and settings.min_p == 0.0:
            return _drawn(np.exp(scaled), chance)
        tokens, weights = _candidates(scaled, settings)
        return int(tokens[_drawn(weights, chance)])

    def _chance(self, place: int) -> float:
        """A number from 0 to 1, of the seed and the place of a token."""
        generator = np.random.Philox(key=self._seed, counter=[0, place, 0, 0])
        return float(np.random.Generator(generator).random())


def _repeated(logits: Logits, penalty: float) -> Logits:
    return np.where(logits > 0, logits / penalty, logits * penalty)


def _drawn(weights: NDArray[np.float64], chance: float) -> int:
    """The place at which the running sum of weights exceeds a share of their sum."""
    sums = np.cumsum(weights)
    found = int(np.searchsorted(sums, chance * sums[-1], side="right"))
    return min(found, int(np.flatnonzero(weights)[-1]))


class _Candidates(NamedTuple):
    """Tokens, the most probable first, and their weights: 1 for the best."""

    tokens: NDArray[np.int64]
    weights: NDArray[np.float64]

    def first(self, count: int) -> _Candidates:
        """The most probable ones."""
        return _Candidates(self.tokens[:count], self.weights[:count])


def _candidates(scaled: NDArray[np.float64], settings: SamplingSettings) -> _Candidates:
    """The tokens that top_k, then top_p, then min_p leave."""
    found = _best(scaled, settings)
    if settings.top_k:
        found = found.first(settings.top_k)
    if settings.top_p < 1.0:
        whole = found.weights.sum() if settings.top_k else np.exp(scaled).sum()
        count = int(np.searchsorted(np.cumsum(found.weights), settings.top_p * whole)) + 1
        found = found.first(count)
    return found.first(int((found.weights >= settings.min_p).sum()))


def _best(scaled: NDArray[np.float64], settings: SamplingSettings) -> _Candidates:
    """As many of the most probable tokens as the settings may leave, in order; equal ones by id."""
    total = np.exp(scaled).sum() if settings.top_p < 1.0 and not settings.top_k else 0.0
    for gap in _gaps():
        tokens = np.flatnonzero(scaled >= -gap)
        weights = np.exp(scaled[tokens])
        whole = len(tokens) == len(scaled)
        if settings.top_k:
            enough = len(tokens) >= settings.top_k
        elif settings.top_p < 1.0:
            enough = weights.sum() >= settings.top_p * total
        else:
            enough = settings.min_p >= np.exp(-gap)
        if enough or whole:
            break
    order = np.argsort(-weights, kind="stable")
    return _Candidates(tokens[order], weights[order])


def _gaps() -> Iterator[float]:
    gap = _FIRST_GAP
    while True:
        yield gap
        gap = gap * 2 if gap < 1e6 else np.inf


def logprob_of(logits: Logits, token: int, top: int) -> TokenLogprob:
    """The logarithm of a token's probability, and those of the `top` most probable tokens."""
    shifted = (logits - logits.max()).astype(np.float64)
    total = float(np.log(np.exp(shifted).sum()))
    best: dict[int, float] = {}
    if top:
        tokens = _best(shifted, SamplingSettings(top_k=top)).tokens[:top]
        best = {int(one): float(shifted[one]) - total for one in tokens}
    return TokenLogprob(token, float(shifted[token]) - total, best)
