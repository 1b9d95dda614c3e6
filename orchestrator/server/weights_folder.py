"""Weights folder: turns the names that clients give into files of one folder of the server."""

from __future__ import annotations

import os
import re

from ...comm.errors import InputError, ModelError
from ...comm.job.shard import find_shards
from .faults import ManagementOff

_NAME = re.compile(r"[\w{}-][\w.{}-]*(?:/[\w{}-][\w.{}-]*)*")


class WeightsFolder:
    """The folder that the operator has chosen for updates of weights."""

    def __init__(self, folder: str | None) -> None:
        """None: there is none."""
        self._folder = folder

    def path(self, name: str) -> str:
        """The file, or the pattern with `{rank}`, that a client has named.

        Raises InputError where it is none in this folder, links followed.
        """
        if self._folder is None:
            raise ManagementOff(
                "updates of weights are off: the option --weights-folder names the folder of their "
                "files."
            )
        if not _NAME.fullmatch(name):
            raise InputError(
                f"file: got {name!r:.80}, expected a name below the folder of weights, such as "
                "new.safetensors or run7/new_rank{rank}.safetensors."
            )
        folder = os.path.realpath(self._folder)
        try:
            shards = find_shards(os.path.join(folder, name))
        except ModelError:
            raise _missing(name) from None
        for rank in range(shards.count):
            real = os.path.realpath(shards.path(rank))
            if os.path.commonpath([folder, real]) != folder or not os.path.isfile(real):
                raise _missing(name)
        return shards.pattern


def _missing(name: str) -> InputError:
    return InputError(f"file: there is no file '{name:.80}' in the folder of weights.")
