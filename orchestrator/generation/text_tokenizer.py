"""Tokenizer of a decoder: text as tokens and back, by the `tokenizer.json` beside the model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...comm.errors import ModelError, UsageError
from ...comm.host.regular_file import read_regular

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FILE = "tokenizer.json"
_MOST_BYTES = 128 << 20
_BEFORE = 16
"""Tokens of the prompt that the text behind it is decoded with: a token's text may depend on the
one before it.
"""


class TextTokenizer:
    """The tokenizer in a folder; for any thread."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._size: int = tokenizer.get_vocab_size(with_added_tokens=True)

    @classmethod
    def beside(cls, folder: str) -> TextTokenizer | None:
        """The tokenizer of a folder, None where it has none. Raises ModelError, UsageError."""
        path = os.path.join(folder, _FILE)
        if not os.path.exists(path):
            return None
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UsageError(
                "texts need the package tokenizers: pip install 'rankmesh[generate]'. Without it "
                "prompts are lists of token ids."
            ) from None
        try:
            return cls(Tokenizer.from_buffer(read_regular(path, _MOST_BYTES)))
        except Exception as error:  # the library has no class of its own
            reason = error.strerror if isinstance(error, OSError) else error
            raise ModelError(f"{path}: cannot be read as a tokenizer: {reason}.") from error

    def tokens(self, text: str, whole: bool = True) -> list[int]:
        """The tokens of a prompt; `whole`: with those that the tokenizer puts before each."""
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=whole).ids
        return found

    def decoder(self, prompt: Sequence[int]) -> SequenceDecoder:
        """A decoder of what comes behind a prompt."""
        from tokenizers.decoders import DecodeStream

        known = [token for token in prompt[-_BEFORE:] if token < self._size]
        return SequenceDecoder(self._tokenizer, DecodeStream(known, True), self._size)


class SequenceDecoder:
    """See TokenDecoder. Ids beyond the tokenizer's have no text."""

    def __init__(self, tokenizer: Tokenizer, stream: object, size: int) -> None:
        self._tokenizer = tokenizer
        self._stream = stream
        self._size = size

    def text(self, token: int) -> str:
        """See TokenDecoder."""
        if token >= self._size:
            return ""
        return self._stream.step(self._tokenizer, token) or ""  # type: ignore[attr-defined]


class NoText:
    """See TokenDecoder: of a decoder without a tokenizer."""

    def text(self, token: int) -> str:
        """See TokenDecoder."""
        return ""
