"""Loaded versions: those of a model that take requests, and the error of requests to others."""

from __future__ import annotations

from typing import NamedTuple

from ...comm.errors import UsageError


class NotLoaded(UsageError):
    """A model, or a version of one, that is not loaded."""


class LoadedVersions(NamedTuple):
    """The versions of one model: `current` answers requests that name none, and any of `all` those
    that name it.
    """

    current: int
    all: tuple[int, ...]
