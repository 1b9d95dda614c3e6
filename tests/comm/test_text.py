"""Text that would steer a terminal is written out, and numbers get their nouns."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.errors import DeadlineExceeded, ModelError, QueueFull
from rankmesh.comm.text import counted, visible, visible_line

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [text] 100%", "plain [text] 100%"),
        ("Größe 尺寸 😀", "Größe 尺寸 😀"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\rb\x08c\x7f", r"a\rb\x08c\x7f"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb", r"a\u202eb"),
        ("\udcff", r"\udcff"),
        ("", ""),
    ],
)
def test_text(text: str, shown: str) -> None:
    assert visible(text) == visible_line(text) == shown


def test_lines_and_tabs() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert visible_line("a\n\tb") == r"a\n\tb"


@given(st.text(st.characters()))
def test_what_is_shown_stays_as_it_is_and_can_be_printed(text: str) -> None:
    for function in (visible, visible_line):
        shown = function(text)
        assert function(shown) == shown
        shown.encode()
        assert not set(map(chr, [*range(9), *range(11, 32), *range(127, 160)])) & set(shown)


def test_errors_show_it() -> None:
    for error in (
        ModelError("a\x1bb\nc"),
        QueueFull("a\x1bb\nc", 3),
        DeadlineExceeded("a\x1bb\nc"),
    ):
        assert str(error) == f"{error}" == "a\\x1bb\nc"


def test_the_log_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("rankmesh").warning("%s: %d%%", "a\x1bb", 7)
    logging.getLogger("rankmesh").warning("%s: %d%%", "ab", 7)
    assert caplog.messages == ["a\\x1bb: 7%", "ab: 7%"]


def test_one_has_no_s() -> None:
    assert [counted(n, "rank") for n in (0, 1, 2)] == ["0 ranks", "1 rank", "2 ranks"]
    assert [counted(n, "entry", "entries") for n in (0, 1, 2)] == [
        "0 entries",
        "1 entry",
        "2 entries",
    ]
