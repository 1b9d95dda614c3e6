"""Sliced shards of a script's job: slices a whole model once, as its configuration says.

Rank 0 has a child process slice. The others wait in short rounds, so that they notice its end.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import weakref

import msgspec

from ...comm.decoding import decode_payloads, decode_sent
from ...comm.errors import ModelError, RankmeshError, UsageError
from ...comm.processes.sliced_model import (
    SliceAnswer,
    SlicedModel,
    SliceRequest,
    checked,
    one_replica,
    slice_in_child,
)
from ...comm.rendezvous.rendezvous import Rendezvous
from ...compiler.mindir.crypto import Decryption
from ...compiler.model_file.config import Config
from ..cache.settings import configured_cache

_SECTION = "slicing"
_ROUND = 0.5
"""Seconds between two times that rank 0 tells the others that it still slices."""


def shards_of(
    path: str,
    config: Config,
    rendezvous: Rendezvous,
    decryption: Decryption | None,
    user: object,
) -> str:
    """The pattern of the shards of the model at `path`; `path` itself where it is not to be sliced.

    All ranks call this. The shards are not evicted while `user` lives. Raises UsageError and
    ModelError, on all ranks alike.
    """
    slices = config.bare(_SECTION, "slice")
    folder = config.bare(_SECTION, "slice_dir")
    if not slices:
        if folder:
            raise UsageError(f"[{_SECTION}] slice_dir is for the shards of slice: give both.")
        return path
    ranks, stages = one_replica(slices, rendezvous.rank.world_size)
    if decryption is not None:
        raise UsageError(
            f"{path}: [{_SECTION}] is for plain models, and a key was given. The shards of an "
            "encrypted model would lie on a disk as plain text, which Rankmesh never writes."
        )
    cache = configured_cache(config)
    request = SliceRequest(path, ranks, stages, folder, cache.folder if cache else "")
    made = _Slicing(request) if rendezvous.rank.rank == 0 else None
    answer = b""
    while not answer:
        answer = rendezvous.exchange(made.answer() if made else b"")[0]
    found = checked(decode_sent(answer, SliceAnswer, "rank 0"))
    _require_everywhere(os.path.dirname(found.pattern), path, rendezvous)
    if made is None:
        weakref.finalize(user, SlicedModel(found).close)
    else:
        assert made.sliced is not None
        weakref.finalize(user, made.sliced.close)
    return found.pattern


def _require_everywhere(folder: str, path: str, rendezvous: Rendezvous) -> None:
    """Raise ModelError on all ranks where the host of one does not see the shards."""
    host = "" if os.path.isdir(folder) else socket.gethostname()
    hosts = decode_payloads(rendezvous.exchange(msgspec.msgpack.encode(host)), str)
    lacking = sorted({one for one in hosts if one})
    if lacking:
        raise ModelError(
            f"{path}: rank 0 has put its shards into {folder}, which {', '.join(lacking)} does not "
            f"have. Let slice_dir in [{_SECTION}] name a folder that all hosts share."
        )


class _Slicing:
    """The work of rank 0, in a thread that ends with the process."""

    def __init__(self, request: SliceRequest) -> None:
        self.sliced: SlicedModel | None = None
        self._request = request
        self._answers: queue.Queue[SliceAnswer] = queue.Queue()
        threading.Thread(target=self._run, name="rankmesh-slice", daemon=True).start()

    def answer(self) -> bytes:
        """The answer for all ranks; empty while there is none."""
        try:
            return msgspec.msgpack.encode(self._answers.get(timeout=_ROUND))
        except queue.Empty:
            return b""

    def _run(self) -> None:
        try:
            self.sliced = slice_in_child(self._request)
            self._answers.put(self.sliced.answer)
        except RankmeshError as error:
            self._answers.put(SliceAnswer(error=type(error).__name__, text=str(error)))
        except Exception as error:  # of any class: the other ranks wait for an answer
            self._answers.put(SliceAnswer(error="ModelError", text=f"{error!r}"))
