"""Prompts of a command: one as an argument, or a file of JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from ...comm.errors import UsageError
from ...comm.host.regular_file import read_regular

Prompt = str | list[int]
_MOST_BYTES = 256 << 20
_decode = msgspec.json.Decoder(Prompt).decode


def prompts_of(prompt: str | None, file: str | None) -> list[Prompt]:
    """The prompts. Raises UsageError, with the line, for what is none."""
    if (prompt is None) == (file is None):
        raise UsageError("expected one of PROMPT and --prompts FILE.")
    return [prompt] if prompt is not None else [*_lines(file or "")]


def _lines(file: str) -> Iterator[Prompt]:
    try:
        content = sys.stdin.buffer.read(_MOST_BYTES) if file == "-" else _read(file)
    except OSError as error:
        raise UsageError(f"--prompts {file}: cannot be read: {error.strerror}.") from error
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield _decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise UsageError(
                f"--prompts {file}, line {number}: {error}. Each line is a text in quotes, or a "
                "list of token ids."
            ) from error


def _read(file: str) -> bytes:
    return read_regular(file, _MOST_BYTES)
