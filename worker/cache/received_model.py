"""Received model: its files under the names that it knows, as an entry of the model cache."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from ...comm.digest import blake2b
from ...comm.errors import ModelError, UsageError
from ...comm.processes.sliced_model import hold
from ...comm.text import counted
from ...comm.transfer.messages import CHUNK, Chunk, Offer, OfferedFile, ToHost, Want, Withheld
from .manifest import MANIFEST
from .store import CacheStore

_AHEAD = 8
"""Chunks that are wanted before the first of them has come: 8 MiB keep 10 Gbit/s busy over 6 ms."""

_LONGEST_NAME = 255
Send = Callable[[Want], None]
Receive = Callable[[], ToHost]


class ReceivedModel:
    """All files of an offer in `folder`, which is not evicted until `close`.

    `pattern` is the path of the shards there. `fetched` is how many bytes were sent for it.
    """

    def __init__(self, offer: Offer, store: CacheStore, send: Send, receive: Receive) -> None:
        """Find the files in the model cache, or fetch what it lacks of them.

        `receive` waits for the answers to what is sent, in their order, and raises where none can
        come. Another process of this host that fetches the same is waited for. Raises UsageError
        where the files cannot be kept, ModelError where they cannot be had.
        """
        check_names(offer)
        self.fetched = 0
        self._offer, self._store = offer, store
        self._send, self._receive = send, receive
        try:
            self.folder, self._lock = self._held()
        except ConnectionError:  # of the channel
            raise
        except OSError as error:
            raise UsageError(self._reason(error)) from error
        self.pattern = str(self.folder / offer.pattern)

    def close(self) -> None:
        """Let the model cache evict the files."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _held(self) -> tuple[Path, int]:
        """The folder of the entry, which is made where there is none, and what holds it."""
        key = _key(self._offer)
        while True:
            found = self._store.find(key)
            if found is not None:
                try:
                    return found, hold(str(found))
                except FileNotFoundError:  # evicted just now
                    continue
            self._require_room()
            if not self._store.add(key, f"{self._offer.label} (received)", self._fill):
                self._store.wait(key)

    def _require_room(self) -> None:
        size, limit = self._offer.size, self._store.limit
        if size > limit:
            raise UsageError(
                f"{self._offer.label}: has {_mib(size)}, and the model cache {self._store.folder} "
                f"may have {_mib(limit)}: set RANKMESH_CACHE_SIZE, or share the files by a path "
                "that all hosts see."
            )
        unique = {file.digest: file for file in self._offer.files}
        missing = sum(self._store.received.missing(file) for file in unique.values())
        if missing > self._store.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _fill(self, folder: Path) -> None:
        """Place all files in the folder of a new entry."""
        for file in self._offer.files:
            target = folder / file.name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store.received.place(file, target, partial(self._fetch, file))
        for file in self._offer.files:
            self._store.received.settle(file)

    def _fetch(self, file: OfferedFile, offset: int) -> Iterator[bytes]:
        """The bytes of a file from an offset on."""
        rest = (
            Want(file.digest, place, min(CHUNK, file.size - place))
            for place in range(offset, file.size, CHUNK)
        )
        wanted = deque(islice(rest, _AHEAD))
        for want in wanted:
            self._send(want)
        while wanted:
            data = self._taken(wanted.popleft(), file)
            for want in islice(rest, 1):
                self._send(want)
                wanted.append(want)
            yield data

    def _taken(self, want: Want, file: OfferedFile) -> bytes:
        answer = self._receive()
        if isinstance(answer, Withheld):
            raise ModelError(f"{self._offer.label}: {file.name} is not sent: {answer.text}")
        got = (answer.digest, answer.offset, len(answer.data)) if isinstance(answer, Chunk) else ()
        if not isinstance(answer, Chunk) or got != (want.digest, want.offset, want.length):
            raise ModelError(
                f"{self._offer.label}: wanted {counted(want.length, 'byte')} of {file.name} from "
                f"{want.offset} on, and something else was sent: install the same version of "
                "rankmesh on all hosts."
            )
        self.fetched += want.length
        return answer.data

    def _reason(self, error: OSError) -> str:
        label, store = self._offer.label, self._store
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return (
                f"{label}: has {_mib(self._offer.size)}, and {_mib(store.free)} are free for the "
                f"model cache {store.folder}: make room, or name another folder "
                "(RANKMESH_CACHE). The bytes that have come are kept for the next attempt."
            )
        return f"{label}: cannot be kept in the model cache {store.folder}: {error}."


def check_names(offer: Offer) -> None:
    """Raise ModelError where a name could lead out of the model's folder, or is offered twice."""
    names = [file.name for file in offer.files]
    for name in (offer.pattern, *names):
        parts = name.split("/")
        if (
            not name.isprintable()
            or "\\" in name
            or parts[0] == MANIFEST
            or any(
                part in ("", ".", "..") or len(os.fsencode(part)) > _LONGEST_NAME for part in parts
            )
        ):
            raise ModelError(
                f"{offer.label}: a file is offered as {name!r}, expected a name inside the model's "
                "folder: refused."
            )
    if len(set(names)) < len(names):
        raise ModelError(f"{offer.label}: a name is offered twice: refused.")


def _key(offer: Offer) -> str:
    """The name of the entry: equal for equal files under equal names."""
    parts = sorted((file.name, file.size, file.digest) for file in offer.files)
    return blake2b(msgspec.json.encode(["received", parts]), digest_size=20).hexdigest()


def _mib(size: int) -> str:
    return f"{-(-size >> 20)} MiB"
