"""Text for users: control characters written out, numbers with nouns, words for yes and no.

An escape sequence in a file's name could clear the screen, change the window's title or hide what
stands beside it. The loggers of Rankmesh write such characters out, and so does every
RankmeshError. The output of users' scripts stays as it is.
"""

from __future__ import annotations

import re

# Control characters (C0 but for tab and line feed, DEL, C1), those that change the direction of
# text, and halves of pairs, which stand for bytes of file names that are not UTF-8.
_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT, _IN_LINE = re.compile(f"[{_STEERING}]"), re.compile(f"[\t\n{_STEERING}]")


def visible(text: str) -> str:
    r"""The text with `\x1b` for an escape, and so on; lines and tabs stay."""
    return text if text.isascii() and text.isprintable() else _IN_TEXT.sub(_written_out, text)


def visible_line(text: str) -> str:
    r"""The text as one line.

    As `visible`, with `\n` for the end of a line and `\t` for a tab too.
    """
    return text if text.isascii() and text.isprintable() else _IN_LINE.sub(_written_out, text)


def shortened(text: str, most: int) -> str:
    """The text; where it has more than `most` characters, its beginning and end with a remark."""
    if len(text) <= most:
        return text
    end = most // 4
    left = len(text) - most
    return f"{text[: most - end]} [... {left} characters are left out ...] {text[-end:]}"


def show(line: str) -> None:
    """Print one line that holds names from files."""
    print(visible_line(line))


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def counted(number: int, noun: str, plural: str = "") -> str:
    """`number` and its noun, with an s unless there is one, or `plural`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


_WORDS = {
    "off": False,
    "no": False,
    "false": False,
    "0": False,
    "on": True,
    "yes": True,
    "true": True,
    "1": True,
}


def yes_or_no(text: str) -> bool | None:
    """The meaning of a word for yes or no; None for any other text."""
    return _WORDS.get(text.lower())
