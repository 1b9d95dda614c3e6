"""Sampling settings: say how the next token of a text is chosen, and where the text ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...comm.errors import InputError, UsageError

_MOST_STOPS = 64
_MOST_BIASES = 10_000
_LONGEST_STOP = 1000
_MOST_TOP = 20


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """Of one text. Raises InputError, naming the setting, for what cannot be.

    - `max_tokens`: the most tokens that are generated; None: 256, or as many as the context has
      room for.
    - `temperature`: 0 takes the most probable token. Higher ones choose by chance.
    - `top_k`: among that many most probable tokens (0: all); `top_p`: among those that together
      have this probability; `min_p`: among those of at least that share of the best one's.
    - `seed`: of the chance: equal seeds give equal texts.
    - `repetition_penalty`: divides positive logits of tokens that were there already, in the
      prompt too, and multiplies negative ones. `presence_penalty` is subtracted from the logits of
      tokens that were generated already, `frequency_penalty` once for each time.
    - `logit_bias`: is added to the logits of tokens, by id.
    - `stop`: texts that end the text, and are not a part of it; `stop_tokens`: further ids that do.
    - `min_tokens`: as many tokens come before one that ends the text. `ignore_eos`: the model's own
      end tokens do not end it.
    - `logprobs`: how many of the most probable tokens are told with each token; 0: only its own
      logarithm; None: nothing.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    stop: str | Sequence[str] = ()
    stop_tokens: Sequence[int] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
    logprobs: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> SamplingSettings:
        """The settings by name. Raises UsageError for a name that there is not."""
        known = cls.__dataclass_fields__
        unknown = given.keys() - known
        if unknown:
            raise UsageError(
                f"there is no setting {min(unknown)!r} of a text: expected one of "
                f"{', '.join(sorted(known))}."
            )
        return cls(**given)

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.max_tokens is not None:
            _check_whole("max_tokens", self.max_tokens, 1)
        for name, least in (("top_k", 0), ("min_tokens", 0)):
            _check_whole(name, getattr(self, name), least)
        _check_number("temperature", self.temperature, 0.0, 1000.0)
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("top_p", self.top_p, 0.0, 1.0, above=True)
        _check_number("repetition_penalty", self.repetition_penalty, 0.0, 1000.0, above=True)
        _check_number("presence_penalty", self.presence_penalty, -1000.0, 1000.0)
        _check_number("frequency_penalty", self.frequency_penalty, -1000.0, 1000.0)
        if self.seed is not None:
            _check_whole("seed", self.seed, -(1 << 63), (1 << 64) - 1)
        if self.logprobs is not None:
            _check_whole("logprobs", self.logprobs, 0, _MOST_TOP)
        self._check_lists()

    def _check_lists(self) -> None:
        stops = self.stop_texts
        if len(stops) > _MOST_STOPS or len(self.stop_tokens) > _MOST_STOPS:
            raise InputError(f"stop: got more than {_MOST_STOPS} texts or tokens.")
        for text in stops:
            if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_STOP:
                raise InputError(
                    f"stop: got {text!r:.50}, expected texts of 1 to {_LONGEST_STOP} characters."
                )
        for token in self.stop_tokens:
            _check_whole("stop_tokens", token, 0)
        if len(self.logit_bias) > _MOST_BIASES:
            raise InputError(
                f"logit_bias: got {len(self.logit_bias)} tokens, expected at most {_MOST_BIASES}."
            )
        for token, bias in self.logit_bias.items():
            _check_whole("logit_bias", token, 0)
            _check_number("logit_bias", bias, -1e6, 1e6)

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The texts that end the text."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def greedy(self) -> bool:
        """Whether the rank's own choice is the token: no logits have to be looked at."""
        changed = self.logit_bias or self.min_tokens or self.repetition_penalty != 1.0
        penalties = self.presence_penalty or self.frequency_penalty
        return not (self.temperature or changed or penalties or self.logprobs is not None)


def _check_whole(name: str, value: Any, least: int, most: int = 1 << 31) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name}: got {value!r:.50}, expected a whole number from {least} on.")


def _check_number(name: str, value: Any, least: float, most: float, above: bool = False) -> None:
    sound = isinstance(value, int | float) and not isinstance(value, bool)
    if not sound or not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name}: got {value!r:.50}, expected a number from {least} to {most}.")
    if above and value == least:
        raise InputError(f"{name}: got {value}, expected more than {least}.")
