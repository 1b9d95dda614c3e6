"""Sequence: one text that is generated, from its prompt to its last token.

All that a text depends on is here and not in a rank, so that another rank can go on with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from queue import SimpleQueue

from ...comm.errors import Closed, RankmeshError
from .results import FinishReason, Piece, TokenLogprob
from .sampler import Logits, Sampler
from .sampling_settings import SamplingSettings
from .text_stream import TextStream

Delivery = SimpleQueue["Piece | RankmeshError"]
"""Where the pieces of a text go, and the error that ends it."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One text. `slot` is its place in the memory of a replica, which holds `length` of its tokens;
    without a replica it is -1, and holds none. Higher `priority` goes first.
    """

    id: int
    prompt: Tokens[int]
    settings: SamplingSettings
    most: int
    """The most tokens that are generated."""

    ends: set[int]
    sampler: Sampler
    text: TextStream
    ended: Callable[[Sequence, RankmeshError | None], None]
    """Called once, by any thread, when the text has ended, with the error if there is one."""

    deadline: float = float("inf")
    priority: int = 0
    delivery: Delivery = field(default_factory=SimpleQueue)
    tokens: list[int] = field(default_factory=list)
    slot: int = -1
    length: int = 0
    failed_steps: int = 0
    """Steps of it in which ranks have died, since the last that they carried out."""

    submitted: float = field(default_factory=time.monotonic)
    _end: threading.Lock = field(default_factory=threading.Lock)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._end.locked()

    @property
    def pending(self) -> int:
        """How many tokens are known that the memory does not hold yet."""
        return len(self.prompt) + len(self.tokens) - self.length

    def part(self, count: int) -> list[int]:
        """The next tokens that the memory is to hold."""
        at, prompt = self.length, len(self.prompt)
        if at >= prompt:
            return self.tokens[at - prompt : at - prompt + count]
        head = list(self.prompt[at : at + count])
        return head + self.tokens[: count - len(head)]

    def choose(self, logits: Logits) -> None:
        """Take the next token by its logits."""
        token, logprob = self.sampler.choose(logits, self.tokens)
        self._take(token, () if logprob is None else (logprob,))

    def take(self, token: int) -> None:
        """Take the next token, which a rank has chosen."""
        self._take(token, ())

    def fail(self, error: RankmeshError) -> None:
        """End with an error; nothing where it has ended."""
        if self._end.acquire(blocking=False):
            self.delivery.put(error)
            self.ended(self, error)

    def cancel(self) -> None:
        """End, as its caller waits for it no more; nothing where it has ended."""
        self.fail(Closed("the text was cancelled."))

    def leave(self) -> None:
        """Lose the place in a replica's memory."""
        self.slot, self.length = -1, 0

    def _take(self, token: int, logprobs: tuple[TokenLogprob, ...]) -> None:
        self.tokens.append(token)
        ended = token in self.ends and len(self.tokens) > self.settings.min_tokens
        told, stopped = ("", False) if ended else self.text.add(token)
        reason: FinishReason | None = None
        if ended or stopped:
            reason = "stop"
        elif len(self.tokens) >= self.most:
            reason = "length"
        if reason is not None and not stopped:
            told += self.text.rest()
        if reason is not None and not self._end.acquire(blocking=False):
            return
        self.delivery.put(Piece(told, (token,), logprobs, reason))
        if reason is not None:
            self.ended(self, None)
