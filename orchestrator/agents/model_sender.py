"""Model sender: has the host of an incarnation hold the files of its ranks before they start."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from ...comm.agents.messages import ModelAnswer, OfferModel, ToAgent
from ...comm.errors import RankmeshError
from ...comm.serving.orders import ServeJob
from ...comm.transfer.file_offer import FileOffer
from ...comm.transfer.messages import Held, Lacking, Want
from ...comm.transfer.model_files import ListedFiles, ListRequest
from ...comm.transfer.transfer_bars import TransferBars
from ...comm.transport.messages import Failed
from .model_lists import ModelLists

_LOG = logging.getLogger("rankmesh.orchestrator")


class ModelSender:
    """The files of one incarnation's ranks. `answer` is for the thread of the agent's messages."""

    def __init__(
        self,
        incarnation: int,
        label: str,
        agent: str,
        lists: ModelLists,
        bars: TransferBars,
        send: Callable[[ToAgent], None],
    ) -> None:
        """`label` is the model, `agent` the host as bars and the log name them."""
        self.busy = False
        """Whether the host does not have all files yet."""

        self._incarnation = incarnation
        self._label = label
        self._agent = agent
        self._lists = lists
        self._bars = bars
        self._send = send
        self._offer: FileOffer | None = None
        self._closed = False
        self._lock = threading.Lock()

    def offer(
        self,
        job: ServeJob,
        ranks: tuple[int, ...],
        then: Callable[[], None],
        failed: Callable[[Failed], None],
    ) -> None:
        """Offer the files of `ranks`; `then` is called when it is done, for what follows the offer.

        Functions in Python are not sent: they may import what lies beside them.
        """
        if job.function is not None:
            then()
            return
        self.busy = True

        def listed(found: ListedFiles | RankmeshError) -> None:
            if self._closed:
                return
            if isinstance(found, RankmeshError):
                failed(Failed(type(found).__name__, str(found)))
                return
            self._offer = FileOffer(self._label, found, self._tell)
            folder = os.path.abspath(job.pattern).removesuffix(f"/{found.pattern}")
            self._send(OfferModel(self._incarnation, self._offer.message, folder))
            then()

        self._lists.ask(ListRequest(job.pattern, job.count, ranks, job.cache), listed)

    def answer(self, wish: Want | Held | Lacking) -> Failed | None:
        """Answer the host's wish; a failure where it cannot have the files."""
        if isinstance(wish, Want):
            with self._lock:
                if self._offer is not None:
                    self._send(ModelAnswer(self._incarnation, self._offer.reply(wish)))
            return None
        self.close()
        if isinstance(wish, Lacking):
            return Failed(wish.error, f"{self._agent}: {wish.text}")
        if wish.fetched:
            size = f"{-(-wish.fetched >> 20)} MiB"
            _LOG.info("sent %s of model '%s' to %s", size, self._label, self._agent)
        return None

    def close(self) -> None:
        """End the offer, and its bar."""
        self.busy = False
        with self._lock:
            self._closed = True
            if self._offer is not None:
                self._offer.close()
                self._offer = None
        self._bars.end(self._name)

    @property
    def _name(self) -> str:
        return f"{self._agent}: {self._label}"

    def _tell(self, label: str, done: int, of: int) -> None:
        self._bars.tell(self._name, done, of)
