"""Remote link: one rank's connection to rank 0 of a job on several hosts, kept by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from ..errors import RankFailed, error_named
from ..job.rank import Rank
from ..transport.curve import LONGEST
from ..transport.curve_client import ConnectionState, CurveClient
from ..transport.listener import first_words, occupied, speaks_zeromq
from ..transport.messages import Exchange, Exchanged, Failed, Join, Joined, Left, Message
from .address import RendezvousAddress
from .remote_rendezvous_server import GONE
from .rendezvous import exchanged_payloads

_HEARD = 1.0
"""Seconds in which the other ranks are told of an event, and confirm it."""

_CLOSED = 3.0


class RemoteLink:
    """The link of one rank; call `join` first.

    The thread calls `on_failed` once, with the failure that ends the job.
    """

    def __init__(
        self,
        client: CurveClient,
        rank: Rank,
        address: RendezvousAddress,
        on_failed: Callable[[Failed], None],
    ) -> None:
        self.failure: Failed | None = None
        self._client = client
        self._rank = rank
        self._address = address
        self._on_failed = on_failed
        self._answers: SimpleQueue[Message] = SimpleQueue()
        self._outbox: SimpleQueue[Message] = SimpleQueue()
        self._told = threading.Event()
        self._left = threading.Event()
        self._first = f"rank 0 at {address}"
        self._ended = False
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="rankmesh-link", daemon=True)

    def join(self, job: str, where: str, timeout: float) -> None:
        """Connect within `timeout` seconds (0: no limit).

        Raises UsageError if rank 0 refuses, RankFailed if it does not answer.
        """
        self._thread.start()
        self._send(Join(self._rank.rank, self._rank.world_size, job, where))
        try:
            answer = self._answers.get(timeout=timeout or None)
        except Empty as error:
            raise RankFailed(
                f"{self._rank}: {self._first} did not answer within {timeout:g} s. "
                f"{self._silence()}"
            ) from error
        if isinstance(answer, Failed):
            raise error_named(answer.error, answer.text)
        if isinstance(answer, Joined):
            self._first = f"rank 0 of {self._rank.world_size} ({answer.where})"

    def exchange(self, payload: bytes) -> list[bytes]:
        """Give `payload`, return those of all ranks in rank order; raise what ended the job."""
        if len(payload) > LONGEST // 2:
            raise RankFailed(
                f"{self._rank}: {len(payload)} bytes for the other ranks, more than {LONGEST // 2}"
            )
        self._send(Exchange(payload))
        return exchanged_payloads(self._rank, self._answer())

    def _answer(self) -> Message:
        """The next answer. One that came before a failure, as the end of rank 0, still counts."""
        if self.failure is None:
            return self._answers.get()
        try:
            return self._answers.get_nowait()
        except Empty:
            return self.failure

    def fail(self, failed: Failed) -> None:
        """Tell all other ranks that the job has failed; return when rank 0 knows or is gone."""
        if self.failure is None:
            self._send(failed)
            self._told.wait(_HEARD)

    def leave(self) -> None:
        """Tell the other ranks that this one ends in order, and end the connection."""
        if self.failure is None and not self._ended:
            self._send(Left(self._rank.rank))
            self._left.wait(_HEARD)
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._closing = True
        self._client.wake()
        self._thread.join(_CLOSED)

    def _send(self, message: Message) -> None:
        self._outbox.put(message)
        self._client.wake()

    def _serve(self) -> None:
        try:
            while not self._closing and not self._client.state.final:
                while not self._outbox.empty():
                    self._client.send(self._outbox.get())
                for message in self._client.receive():
                    self._handle(message)
        finally:
            if not self._closing:
                self._lost()
            self._client.close()

    def _handle(self, message: Message) -> None:
        if isinstance(message, Failed):
            self._fail(message)
        elif isinstance(message, Left):
            self._ended = self._ended or message.rank == 0
            if message.rank == self._rank.rank:
                self._left.set()
        elif isinstance(message, (Joined, Exchanged)):
            self._answers.put(message)

    def _silence(self) -> str:
        """Why rank 0 may not have answered."""
        said = first_words(self._client.address, self._address.port)
        if said is None:
            return f"Nothing listens there: is it started{self._address.expected(0)}?"
        if speaks_zeromq(said):
            return "It listens, but does not answer: its process may be stopped or stuck."
        return (
            f"Is it started, and may this host connect to its port {self._address.port} (TCP)? If "
            f"so, {occupied(self._address.host, self._address.port, said)}"
        )

    def _refusal(self) -> str:
        """Why there was no handshake."""
        said = first_words(self._client.address, self._address.port)
        if said is not None and not speaks_zeromq(said):
            stuck = "" if said else " Or it is rank 0, which is stopped or stuck."
            return f"{self._rank}: {occupied(self._address.host, self._address.port, said)}{stuck}"
        return (
            f"{self._rank}: {self._first} does not take our keys: the key file must be the same on "
            "all hosts. If it is, another job has that port: set another RANKMESH_PORT on all "
            "hosts."
        )

    def _lost(self) -> None:
        if self._client.state is ConnectionState.REFUSED:
            self._fail(Failed("UsageError", self._refusal()))
        elif self._ended:
            text = f"{self._first} has ended, and brings the ranks together no more"
            self._fail(Failed("RankFailed", text, 0), at_once=False)
        else:
            self._fail(Failed("RankFailed", f"{self._first} is gone: {GONE}", 0))

    def _fail(self, failed: Failed, at_once: bool = True) -> None:
        """Keep the first failure for the next exchange; `at_once` ends the job without one."""
        if self.failure is None:
            self.failure = failed
            if at_once:
                self._on_failed(failed)
        self._answers.put(failed)
        self._told.set()
