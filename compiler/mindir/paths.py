"""Paths that a model file names: they must stay inside the model's folder.

A model that is a link, as in the caches of hubs, has a second folder: that of the file to which it
leads. Its data may be links into that folder too.
"""

from __future__ import annotations

import os

from ...comm.errors import ModelError

_ADDRESS = "*/_ORT_"
"""The mark by which onnxruntime takes external data for an address; a folder can have that name."""


class DataFolders:
    """The folders of one model where its external data may lie.

    Names of data start at `named`; `base` is the folder inside which all files of the model lie.
    """

    def __init__(self, path: str, weights_folder: str = "") -> None:
        """Of the model at `path`, whose data lie in `weights_folder`, by default beside it."""
        self.named = weights_folder or os.path.dirname(os.path.abspath(path))
        self.base = self.named if weights_folder else base_folder(path)
        self._second = "" if weights_folder else os.path.dirname(os.path.realpath(path))

    def resolve(self, location: str, referrer: str) -> str:
        """See resolve_inside."""
        return resolve_inside(self.named, location, referrer, self._second)

    def place(self, location: str, referrer: str) -> str:
        """The place of the data at `location` from `base`, behind all links. Raises as
        resolve_inside.
        """
        place = os.path.relpath(self.resolve(location, referrer), os.path.realpath(self.base))
        _refuse_address(place, referrer)
        return place


def base_folder(path: str, weights_folder: str = "") -> str:
    """The folder inside which every file of the model at `path` lies, behind all links.

    `weights_folder` has its external data, where they do not lie beside it.
    """
    own, behind = os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))
    folders = {os.path.realpath(one) for one in (own, behind, weights_folder) if one}
    base = os.path.commonpath(folders)
    return own if base == os.path.realpath(own) else base


def resolve_inside(folder: str, location: str, referrer: str, second: str = "") -> str:
    """The real path of `location` inside `folder`; ModelError where it is missing or outside.

    It may be a link into the folder `second` as well. `referrer` is the file and the parameter that
    name it, for messages.
    """
    _refuse_address(location, referrer)
    path = _inside(os.path.realpath(folder), location, second)
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


def _refuse_address(location: str, referrer: str) -> None:
    if _ADDRESS in location:
        raise ModelError(
            f"{referrer} names the data file '{location}', which onnxruntime takes for an address "
            f"in its memory: refused. Rename the file."
        )


def _inside(folder: str, location: str, second: str) -> str | None:
    if not location or "\0" in location or os.path.isabs(location):
        return None
    path = os.path.realpath(os.path.join(folder, location))
    if _lies_in(folder, path):
        return path
    plain = os.pardir not in location.split(os.sep)
    return path if plain and second and _lies_in(second, path) else None


def _lies_in(folder: str, path: str) -> bool:
    return os.path.commonpath([folder, path]) == folder
