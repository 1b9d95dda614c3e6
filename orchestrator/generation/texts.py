"""Texts of callers: waits for the pieces of a text, and puts them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from ...comm.errors import RankmeshError
from .results import Generation, Piece, TokenLogprob, Usage
from .sequence import Sequence as TextSequence

Prompt = str | Sequence[int]
"""A text, or the ids of its tokens."""


def listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """The prompts of a call: a text or a list of ids is one."""
    if isinstance(prompts, str):
        return [prompts]
    if prompts and all(isinstance(one, int) for one in prompts):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def next_piece(sequence: TextSequence) -> Piece:
    """The next piece of a text; raises the error that ended it."""
    found = sequence.delivery.get()
    if isinstance(found, RankmeshError):
        raise found
    return found


def pieces(sequence: TextSequence) -> Iterator[Piece]:
    """The pieces of a text as they come; a caller that stops early ends it."""
    try:
        while True:
            piece = next_piece(sequence)
            yield piece
            if piece.finish_reason is not None:
                return
    finally:
        sequence.cancel()


def whole(sequence: TextSequence) -> Generation:
    """Wait for a whole text."""
    text: list[str] = []
    tokens: list[int] = []
    logprobs: list[TokenLogprob] = []
    for piece in pieces(sequence):
        text.append(piece.text)
        tokens += piece.tokens
        logprobs += piece.logprobs
    assert piece.finish_reason is not None
    usage = Usage(len(sequence.prompt), len(tokens))
    return Generation("".join(text), tuple(tokens), piece.finish_reason, usage, tuple(logprobs))


def fulfil(future: Future[Generation], sequence: TextSequence) -> None:
    """Wait for a whole text, and give it to a future."""
    try:
        result = whole(sequence)
    except RankmeshError as error:
        if not future.cancelled():
            future.set_exception(error)
        return
    if not future.cancelled():
        future.set_result(result)
