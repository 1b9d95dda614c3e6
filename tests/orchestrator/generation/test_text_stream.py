"""Text as it comes: stop texts in and across tokens, and text that is held back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.orchestrator.generation.text_stream import TextStream
from rankmesh.orchestrator.generation.text_tokenizer import NoText, TextTokenizer

pytestmark = pytest.mark.pure

FOLDER = str(Path(__file__).parents[2] / "data" / "decoders" / "llama")


class Words:
    """Tokens are indexes of words."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def text(self, token: int) -> str:
        return self._words[token]


@given(
    st.lists(st.text("abc", max_size=4), max_size=12),
    st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
)
def test_the_text_ends_before_the_first_stop_text(words: list[str], stops: list[str]) -> None:
    """And nothing of a stop text is told before."""
    stream = TextStream(Words(words), stops)
    told, stopped = "", False
    for token in range(len(words)):
        found = stream.add(token)
        told += found.text
        if found.stopped:
            stopped = True
            break
    if not stopped:
        told += stream.rest()
    read = "".join(words[: token + 1]) if words else ""
    places = [at for stop in stops if (at := read.find(stop)) >= 0]
    assert stopped == bool(places)
    assert told == (read[: min(places)] if places else read)


def test_only_what_may_begin_a_stop_text_is_held_back() -> None:
    stream = TextStream(Words(["hello <", "b", "/s> more"]), ["</s>"])
    assert stream.add(0) == ("hello ", False)
    assert stream.add(1) == ("<b", False)
    assert TextStream(Words(["a</", "s>b"]), ["</s>"]).add(0) == ("a", False)


def test_characters_come_whole() -> None:
    """The tokens of a text that has characters of several bytes give no replacement character."""
    tokenizer = TextTokenizer.beside(FOLDER)
    assert tokenizer is not None
    text = "naïve 漢字 🙂 end"
    stream = TextStream(tokenizer.decoder([]), ())
    pieces = [stream.add(token).text for token in tokenizer.tokens(text, whole=False)]
    assert "".join(pieces) == text
    assert not any("�" in piece for piece in pieces)


def test_ids_beyond_the_tokenizer_have_no_text() -> None:
    tokenizer = TextTokenizer.beside(FOLDER)
    assert tokenizer is not None
    assert tokenizer.decoder([500, 511]).text(511) == ""
    assert NoText().text(3) == ""


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    assert TextTokenizer.beside(str(tmp_path)) is None
