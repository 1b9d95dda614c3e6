"""Model files of ranks: listed by a child process, which reads the shards, and offered to hosts."""

from __future__ import annotations

import msgspec

from .. import errors
from ..decoding import guarded
from ..host.stamp import Stamp
from ..processes.child_answer import run_child
from .messages import OfferedFile

_MODULE = "rankmesh.worker.cache.model_listing"


class ListRequest(msgspec.Struct, frozen=True):
    """Shards behind a pattern, `count` in all, and the ranks whose files are asked for.

    `cache` is the folder of the model cache, which remembers digests: "off" for none, "" for the
    usual one.
    """

    pattern: str
    count: int
    ranks: tuple[int, ...]
    cache: str = ""


class LocalFile(msgspec.Struct, frozen=True):
    """A file to offer: its stamp here, and its name, size and digest as other hosts are told."""

    stamp: Stamp
    file: OfferedFile


class ListedFiles(msgspec.Struct, frozen=True):
    """All files that ranks need of a model; or an error, by its class and text.

    `pattern` is that of the shards, relative to the folder in which all files lie.
    """

    pattern: str = ""
    files: tuple[LocalFile, ...] = ()
    error: str = ""
    text: str = ""


LIST_REQUEST_DECODER = guarded(msgspec.json.Decoder(ListRequest))
LISTED_FILES_DECODER = guarded(msgspec.json.Decoder(ListedFiles))


def list_in_child(request: ListRequest) -> ListedFiles:
    """The files of ranks with their digests. Raises ModelError where a shard cannot be read."""
    child = run_child(_MODULE, request)
    try:
        found = LISTED_FILES_DECODER(child.data)
    except msgspec.DecodeError as error:
        raise errors.ModelError(
            f"{request.pattern}: the process that lists its files {child.told}, before it had an "
            "answer."
        ) from error
    if found.error:
        raise errors.error_named(found.error, found.text)
    return found
