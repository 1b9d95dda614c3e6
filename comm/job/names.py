"""Names of files in messages: refuses those that are not UTF-8, which every message is."""

from __future__ import annotations

import os

from ..errors import ModelError


def require_utf8(*names: str | None) -> None:
    """Raise ModelError for a file name with bytes that are not text, before ranks are sent it.

    onnxruntime takes no other names, either.
    """
    for name in names:
        if name is not None and not _is_utf8(name):
            raise ModelError(
                f"{name}: is no name in UTF-8, and ranks are sent names in UTF-8 only. Rename the "
                "file or folder, or make a link to it: ln -s FOLDER model."
            )


def require_utf8_path(model: str) -> None:
    """As `require_utf8`, for the folders of a model too: data of models are found by them."""
    require_utf8(os.path.abspath(model))


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
