"""Lite files: each is written aside, and renamed when it is complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ....comm.errors import UsageError
from ...lite.flatbuffer_writer import FlatbufferWriter
from ...lite.lite_file import IDENTIFIER
from ...lite.schema.lite_schema import lite_schema

Progress = Callable[[str, int, int], None]
VERSION = "MindSpore Lite 2.3.1"
"""The release whose form the files have: it decides how readers take quantised weights."""


def write_lite_file(
    root: Mapping[str, Any], target: Path, nbytes: int, progress: Progress | None
) -> Path:
    """Write a .ms file, whose weights have `nbytes` bytes in all. It appears when it is complete.

    Raises UsageError where it cannot be written, and where it would have more than 2 GiB.
    """
    writer = FlatbufferWriter(lite_schema(), IDENTIFIER)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as aside:
            written, made = 0, Path(aside) / target.name
            with made.open("wb") as file:
                for chunk in writer.chunks("MetaGraph", root):
                    file.write(chunk)
                    written += len(chunk)
                    if progress is not None:
                        progress("writing", min(written, nbytes), nbytes)
            os.replace(made, target)
    except OSError as error:
        raise UsageError(
            f"{error.filename or target}: cannot be written: {error.strerror}."
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{target}: {error}: convert to MindIR, which has no such limit."
        ) from error
    return target
