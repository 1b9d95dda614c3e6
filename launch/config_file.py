"""Configurations as the command line reads them: every fault becomes a usage error."""

from __future__ import annotations

from ..comm.config import Config
from ..comm.errors import UsageError


def read_config(path: str | None) -> Config:
    """The .ini file at `path`, an empty configuration without one; UsageError says what is wrong with it."""
    try:
        return Config.read(path) if path else Config()
    except ValueError as error:
        raise UsageError(str(error)) from error
