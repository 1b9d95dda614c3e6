"""The file that names the weights which updates may replace (`variable_weights_file`)."""

from __future__ import annotations

import io

from ...comm.errors import UsageError
from ...comm.regular_file import read_regular

_NORMAL_ENDS = ("weight", "alpha")
_MOST_LINES = 1_000_000
_MOST_BYTES = 256 << 20
"""As many lines of 256 bytes as are read."""


def read_variable_names(path: str) -> dict[str, str]:
    """From each weight's name to its node's path, or to "" where MindSpore Lite's rule gives the node.

    One entry per line: `NAME`, which ends in weight or alpha, or `NAME,NODE`. Empty lines are skipped. UsageError
    where the file cannot be read, is empty, or a line is neither.
    """
    try:
        content = io.StringIO(read_regular(path, _MOST_BYTES).decode(), newline=None)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"variable weight name list is not exists. {path} cannot be read as text: {reason}. Name the "
                         f"weights to update there, one per line.") from error
    lines = [line.strip() for line, _ in zip(content, range(_MOST_LINES), strict=False)]
    names = dict(_entry(line, number, path) for number, line in enumerate(lines, 1) if line)
    if not names:
        raise UsageError(f"{path}: names no weight. Write the names of the weights to update, one per line.")
    return names


def _entry(line: str, number: int, path: str) -> tuple[str, str]:
    columns = [column.strip() for column in line.split(",")]
    if len(columns) > 2:
        raise UsageError(f"{path}: line {number}: only support 1 or 2 row name list, got {len(columns)} columns: "
                         f"'{line}'. Write NAME or NAME,NODE.")
    if len(columns) == 1 and not columns[0].endswith(_NORMAL_ENDS):
        raise UsageError(f"{path}: line {number}: variable is not norm name, now only support **weight, got '{line}'. "
                         f"Write a name that ends in weight or alpha, or NAME,NODE.")
    return columns[0], columns[1] if len(columns) == 2 else ""
