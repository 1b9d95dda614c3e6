"""File digests: remembers those of files whose stamps in the file system are still the same."""

from __future__ import annotations

import os
from pathlib import Path

from ...comm.errors import ModelError
from ...comm.host.stamp import Files, Stamp
from ...comm.transfer.messages import Offer
from .identity import ModelIdentities
from .received_files import digest_of
from .store import IDENTITIES, CacheStore


class FileDigests:
    """Digests as transfers use them, kept in a model cache that may be written."""

    def __init__(self, store: CacheStore | None) -> None:
        folder = store.folder / IDENTITIES if store else None
        kept = folder is not None and os.access(folder, os.W_OK)
        self._known = ModelIdentities(folder, _digest, "file-") if folder and kept else None

    def of(self, path: str) -> str:
        """The digest of the file at `path`.

        Raises OSError where it cannot be read, ModelError where it changes meanwhile.
        """
        if self._known is None:
            return digest_of(Path(path))
        found = self._known.known(path) or self._known.learn({"": Stamp.of(path)})
        if found is None:
            raise ModelError(f"{path}: changes while it is read. Start again when it is written.")
        return found.digest

    def match(self, offer: Offer, folder: str) -> bool:
        """Whether the offered files lie in `folder` of this host too, with the same bytes."""
        paths = {f"{folder}/{file.name}": file for file in offer.files}
        try:
            if any(os.stat(path).st_size != file.size for path, file in paths.items()):
                return False
            return all(self.of(path) == file.digest for path, file in paths.items())
        except (OSError, ModelError):
            return False


def _digest(files: Files) -> str:
    return digest_of(Path(files[""].path))
