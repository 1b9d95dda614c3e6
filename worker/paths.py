"""Paths that a model file names: they must stay inside the model's folder."""

from __future__ import annotations

import os

from ..comm.errors import ModelError


def resolve_inside(folder: str, location: str, who: str) -> str:
    """The real path of `location` inside `folder`; ModelError where it is missing or leads outside."""
    inside = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(inside, location))
    outside = os.path.isabs(location) or os.path.commonpath([inside, path]) != inside
    if not location or "\0" in location or outside:
        raise ModelError(f"{who} names the data file '{location}', which lies outside the model's folder "
                         f"{folder}: refused.")
    if not os.path.isfile(path):
        raise ModelError(f"{who} needs the data file {path}, which is missing: copy it beside the model.")
    return path
