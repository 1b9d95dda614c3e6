"""Text that holds names from files, as terminals may show it: what would steer the terminal is written out.

A name with an escape sequence could else clear the screen, change the window's title or hide what stands beside it. The
loggers of Rankmesh write it out, and every RankmeshError; what users' scripts print stays as it is.
"""

from __future__ import annotations

import re

# control characters (C0 but for tab and line feed, DEL, C1), what turns the direction of text, and halves of pairs,
# which stand for bytes of file names that are no UTF-8 and cannot be printed
_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT, _IN_LINE = re.compile(f"[{_STEERING}]"), re.compile(f"[\t\n{_STEERING}]")


def visible(text: str) -> str:
    r"""The text with `\x1b` for an escape, and so on; lines and tabs stay."""
    return text if text.isascii() and text.isprintable() else _IN_TEXT.sub(_written_out, text)


def visible_line(text: str) -> str:
    r"""The text as one line: as `visible`, with `\n` for the end of a line and `\t` for a tab too."""
    return text if text.isascii() and text.isprintable() else _IN_LINE.sub(_written_out, text)


def show(line: str) -> None:
    """Print one line that holds names from files."""
    print(visible_line(line))


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
