"""Results of generation: pieces of a text as they come, and the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length"]
"""Why a text ends: by a token or text that ends it, or as it has as many tokens as it may."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The natural logarithm of a token's probability, as the model gives it before any setting of
    the request; and those of the most probable tokens, by id, where these were asked for.
    """

    token: int
    logprob: float
    top: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a text that has come since the last piece.

    `text` may be empty: a token may be a part of a character, or text is held back as it may begin
    a stop text. The last piece has a `finish_reason`.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a prompt, and those that were generated."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A text, its tokens, why it ended, and the versions of the weights that it comes from."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    logprobs: tuple[TokenLogprob, ...] = ()
    weights_versions: tuple[int, ...] = (0,)
