"""Source of what the cache keeps: the files of a model, by the hash that they had before they were
read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...comm.errors import ModelError
from ...comm.host.stamp import Files
from .identity import ModelIdentities, ModelIdentity


class BuildSource:
    """The files of a model, with the hash that they had before something was made of them."""

    def __init__(
        self, model: str, files: Callable[[str], Files], remembered: Path, kind: str = ""
    ) -> None:
        """`files` finds the stamps of the files. `remembered` is a folder with hashes of earlier
        requests, whose names begin with `kind`.

        ModelError where the model cannot be read.
        """
        self._model = model
        self._identities = ModelIdentities(remembered, kind=kind)
        self._identity = self._identities.known(model) or self._read(files(model))
        self.digest = self._identity.digest

    def check(self) -> None:
        """ModelError where the files have other bytes than before.

        Those that were new then are read again, as a change shows in no time of the file system.
        """
        before = self._identity
        same = before.holds if before.settled else self._read(before.files).digest == self.digest
        if not same:
            raise self._changed()

    def _read(self, files: Files) -> ModelIdentity:
        try:
            found = self._identities.read(files)
        except OSError as error:
            raise ModelError(f"{self._model}: cannot be read: {error.strerror}.") from error
        if found is None:
            raise self._changed()
        return found

    def _changed(self) -> ModelError:
        return ModelError(
            f"{self._model}: changes while it is read. Start again when it is written."
        )
