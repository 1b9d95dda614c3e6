"""Model listing: all files that ranks need of a model, with their digests, for other hosts.

`comm/transfer/model_files.py` starts it: `python -m rankmesh.worker.cache.model_listing REQUEST`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from ...comm.errors import ModelError, RankmeshError
from ...comm.host.stamp import Stamp
from ...comm.job.shard import RANK, Shards
from ...comm.processes.child_answer import follow_parent, tell
from ...comm.transfer.messages import OfferedFile
from ...comm.transfer.model_files import LIST_REQUEST_DECODER, ListedFiles, ListRequest, LocalFile
from ...compiler.mindir.crypto import decryption_from_environment
from ...compiler.model_file.model_format import MINDIR, format_of
from .file_digests import FileDigests
from .settings import served_cache


def listed(request: ListRequest) -> ListedFiles:
    """The files that a request asks for; raises RankmeshError."""
    pattern = os.path.abspath(request.pattern)
    folder = os.path.dirname(pattern.partition(RANK)[0])
    shards = Shards(pattern, request.count)
    location = served_cache(request.cache)
    digests = FileDigests(location.open() if location else None)
    found: dict[str, LocalFile] = {}
    for path in dict.fromkeys(shards.path(rank) for rank in request.ranks):
        for stamp in _stamps(path):
            name = os.path.relpath(stamp.path, folder)
            if name not in found:
                found[name] = _local_file(stamp, name, digests)
    return ListedFiles(os.path.relpath(pattern, folder), tuple(found.values()))


def _stamps(path: str) -> Iterable[Stamp]:
    """The stamps of all files of a shard."""
    decryption = decryption_from_environment(os.environ, "AES-GCM")
    form = format_of(path)
    if form is not MINDIR:
        return form.load(path, decryption, "", None, False).files.values()
    from ...compiler.mindir.reader import read_model

    return read_model(path, decryption, "").files.values()


def _local_file(stamp: Stamp, name: str, digests: FileDigests) -> LocalFile:
    if name.startswith(os.pardir) or not name.isprintable():
        raise ModelError(
            f"{stamp.path}: cannot be sent to other hosts, as it lies outside the folder of the "
            "model, or has an unprintable name. Share it by a path that all hosts see."
        )
    try:
        return LocalFile(stamp, OfferedFile(name, stamp.size, digests.of(stamp.path)))
    except OSError as error:
        raise ModelError(f"{stamp.path}: cannot be read: {error.strerror}.") from error


def main() -> None:
    """Answer the request in the first argument."""
    follow_parent()
    try:
        tell(listed(LIST_REQUEST_DECODER(sys.argv[1].encode())))
    except RankmeshError as error:
        tell(ListedFiles(error=type(error).__name__, text=str(error)))


if __name__ == "__main__":
    main()
