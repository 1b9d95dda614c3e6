"""Generation calls of an orchestrator: send prompts to its decoders, and take the texts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .chat_template import Message
    from .results import Generation, Piece
    from .sequence import Sequence as TextSequence
    from .texts import Prompt

_MODELS = -1  # the model's own timeout


class Decoder(Protocol):
    """A model that generates text."""

    @property
    def timeout(self) -> float | None:
        """Seconds of a text that says nothing; None: no deadline."""

    def submit(
        self, prompt: Prompt, sampling: Mapping[str, Any], timeout: float | None, priority: int
    ) -> TextSequence:
        """Have a text be generated. Raises InputError, QueueFull, Draining, Closed."""

    def chat_tokens(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of a chat, by the model's template. Raises InputError."""


class Decoders(Protocol):
    """The decoders of an orchestrator."""

    def decoder(self, model: str | None, version: int | None = None) -> Decoder:
        """A model that generates text, None for the only one. Raises UsageError."""


class GenerationCalls:
    """Calls that generate text; from any thread.

    A prompt is a text or a list of token ids. `sampling` are SamplingSettings, of which
    `max_tokens` and `temperature` are the first to know. `timeout` is in seconds, None for no
    deadline (by default the model's); prompts of higher `priority` go first. `model` names one of
    several, `version` one of its versions.

    They raise InputError, QueueFull, DeadlineExceeded, and RankDied and its kin where a text cannot
    be ended.
    """

    _decoders: Decoders

    def stream(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = _MODELS,
        priority: int = 0,
        model: str | None = None,
        version: int | None = None,
        **sampling: Any,
    ) -> Iterator[Piece]:
        """Generate one text, in pieces as they come. A caller that stops early ends the text."""
        sequence = self._begun(prompt, timeout, priority, model, version, sampling)
        from .texts import pieces

        return pieces(sequence)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        timeout: float | None = _MODELS,
        priority: int = 0,
        model: str | None = None,
        version: int | None = None,
        **sampling: Any,
    ) -> list[Generation]:
        """Generate one text for each prompt, all at once, and wait for them. A text, or a list of
        ids, is one prompt.
        """
        from .texts import listed, whole

        begun: list[TextSequence] = []
        try:
            for prompt in listed(prompts):
                begun.append(self._begun(prompt, timeout, priority, model, version, sampling))
            return [whole(one) for one in begun]
        except BaseException:
            for one in begun:
                one.cancel()
            raise

    def submit_generation(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = _MODELS,
        priority: int = 0,
        model: str | None = None,
        version: int | None = None,
        **sampling: Any,
    ) -> Future[Generation]:
        """Generate one text; the future has it. To cancel the future ends the text."""
        from .texts import fulfil

        sequence = self._begun(prompt, timeout, priority, model, version, sampling)
        future: Future[Generation] = Future()
        future.add_done_callback(lambda done: sequence.cancel() if done.cancelled() else None)
        name = f"rankmesh-text-{sequence.id}"
        threading.Thread(target=fulfil, args=(future, sequence), name=name, daemon=True).start()
        return future

    async def generate_async(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        timeout: float | None = _MODELS,
        priority: int = 0,
        model: str | None = None,
        version: int | None = None,
        **sampling: Any,
    ) -> list[Generation]:
        """As `generate`, for an asyncio loop."""
        from .texts import listed, whole

        begun = [
            self._begun(prompt, timeout, priority, model, version, sampling)
            for prompt in listed(prompts)
        ]
        try:
            return [await asyncio.to_thread(whole, one) for one in begun]
        finally:
            for one in begun:
                one.cancel()

    async def stream_async(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = _MODELS,
        priority: int = 0,
        model: str | None = None,
        version: int | None = None,
        **sampling: Any,
    ) -> AsyncIterator[Piece]:
        """As `stream`, for an asyncio loop."""
        from .texts import next_piece

        sequence = self._begun(prompt, timeout, priority, model, version, sampling)
        try:
            while True:
                piece = await asyncio.to_thread(next_piece, sequence)
                yield piece
                if piece.finish_reason is not None:
                    return
        finally:
            sequence.cancel()

    def chat_tokens(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        version: int | None = None,
    ) -> list[int]:
        """The prompt of a chat, as tokens, by the model's template. A message is a mapping with a
        `role` and a `content`. Raises InputError where the template refuses the messages.
        """
        return self._decoders.decoder(model, version).chat_tokens(messages)

    def _begun(
        self,
        prompt: Prompt,
        timeout: float | None,
        priority: int,
        model: str | None,
        version: int | None,
        sampling: dict[str, Any],
    ) -> TextSequence:
        decoder = self._decoders.decoder(model, version)
        seconds = decoder.timeout if timeout == _MODELS else timeout
        return decoder.submit(prompt, sampling, seconds, priority)
