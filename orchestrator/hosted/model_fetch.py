"""Model fetch: has the files of an incarnation's ranks on this host, in a thread of its own.

The model cache belongs to the ranks' side of the package. As the ranks are, it is found by its
module's name, once a model is offered.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from ...comm.errors import error_parts
from ...comm.transfer.messages import (
    LONGEST_TEXT,
    Chunk,
    FromHost,
    Held,
    Lacking,
    Offer,
    ToHost,
    Want,
    Withheld,
)


class HeldModel(Protocol):
    """The files of an offer on this host."""

    @property
    def pattern(self) -> str:
        """The path of the shards."""

    @property
    def fetched(self) -> int:
        """How many bytes were sent for them."""

    def close(self) -> None:
        """Let the files go."""


_MODULE = "...worker.cache.offered_model"


class ModelFetch:
    """One offer. The files are held until `close`; a fetch under way ends then."""

    def __init__(
        self,
        offer: Offer,
        folder: str,
        send: Callable[[FromHost], None],
        held: Callable[[str], None],
    ) -> None:
        """`held` is called with the pattern of the shards, from another thread."""
        self._offer, self._folder = offer, folder
        self._send = send
        self._held = held
        self._answers: SimpleQueue[Chunk | Withheld | None] = SimpleQueue()
        self._model: HeldModel | None = None
        self._closed = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Begin; answers may come from now on."""
        threading.Thread(target=self._run, name="rankmesh-model-fetch", daemon=True).start()

    def answer(self, message: Chunk | Withheld) -> None:
        """Take an answer of the other host."""
        self._answers.put(message)

    def close(self) -> None:
        """End the fetch, or let the files go; nothing is sent afterwards."""
        self._answers.put(None)
        with self._lock:
            self._closed = True
            if self._model is not None:
                self._model.close()

    def _run(self) -> None:
        try:
            model = _opener()(self._offer, self._folder, self._tell, self._receive)
        except ConnectionError:  # closed
            return
        except Exception as error:  # of any class: the other host has to hear of it
            name, text, _ = error_parts(error)
            with suppress(ConnectionError):
                self._tell(Lacking(name, text[:LONGEST_TEXT]))
            return
        with self._lock:
            self._model = model
            if self._closed:
                model.close()
                return
            self._send(Held(model.fetched))
        self._held(model.pattern)

    def _tell(self, message: FromHost) -> None:
        with self._lock:
            if self._closed:
                raise ConnectionResetError("the incarnation of ranks has ended")
            self._send(message)

    def _receive(self) -> ToHost:
        answer = self._answers.get()
        if answer is None:
            raise ConnectionResetError("the incarnation of ranks has ended")
        return answer


def _opener() -> Callable[[Offer, str, Callable[[Want], None], Callable[[], ToHost]], HeldModel]:
    """The function that has the files of an offer.

    It takes the folder of the files on the other host, and what sends and receives.
    """
    opener: Callable[..., HeldModel] = importlib.import_module(_MODULE, __package__).open_offered
    return opener
