"""Paths that a model file names: they must stay inside the model's folder."""

from __future__ import annotations

import os

from ...comm.errors import ModelError

_ADDRESS = "*/_ORT_"
"""The mark by which onnxruntime takes external data for an address; a folder can have that name."""


def resolve_inside(folder: str, location: str, referrer: str) -> str:
    """The real path of `location` inside `folder`; ModelError where it is missing or outside.

    `referrer` is the file and the parameter that name it, for messages.
    """
    if _ADDRESS in location:
        raise ModelError(
            f"{referrer} names the data file '{location}', which onnxruntime takes for an address "
            f"in its memory: refused. Rename the file."
        )
    path = _inside(os.path.realpath(folder), location)
    if path is None:
        raise ModelError(
            f"{referrer} names the data file '{location}', which lies outside the model's folder "
            f"{folder}: refused. Copy it into that folder."
        )
    if not os.path.isfile(path):
        raise ModelError(
            f"{referrer} needs the data file {path}, which is missing: copy it beside the model."
        )
    return path


def _inside(folder: str, location: str) -> str | None:
    if not location or "\0" in location or os.path.isabs(location):
        return None
    path = os.path.realpath(os.path.join(folder, location))
    return path if os.path.commonpath([folder, path]) == folder else None
