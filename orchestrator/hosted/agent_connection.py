"""Agent connection: an agent's two connections to an orchestrator, from joining to their end."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue

import msgspec

from ...comm.agents.messages import FromAgent, ToAgent, decode_to_agent, encode_from_agent
from ...comm.errors import RankFailed, RankmeshError, UsageError, error_named
from ...comm.transport.curve import heartbeats
from ...comm.transport.curve_client import ConnectionState, CurveClient
from ...comm.transport.frame_stream import FrameStream
from ...comm.transport.key_file import Keys
from ...comm.transport.listener import first_words, speaks_zeromq
from ...comm.transport.local_socket import credentials
from ...comm.transport.message_stream import receive
from ...comm.transport.messages import AgentDismissed, AgentJoin, AgentWelcome, Failed, Message
from ...comm.transport.stream_invitation import StreamInvitation
from ...comm.transport.tensor_socket import accept, caller_seals, prepare
from .agent_parts import SharedArena

_CONNECT = 10.0
_CLOSED = 3.0
_SAID = 1.0
_AGAIN = 0.5


class AgentConnection:
    """Joins when it is made; a thread of its own notices the end of the orchestrator."""

    def __init__(self, address: tuple[str, int], keys: Keys, silence: float, until: float) -> None:
        """`silence` is after how many seconds without a sign of life the other end is gone.

        The name of a new pod may have an address later: it is awaited `until` a time of the
        monotonic clock. Raises UsageError without one.
        """
        self.dismissed = False
        """Whether the orchestrator has closed in order."""

        self.shared: SharedArena | None = None
        """The memory of requests, where the orchestrator is on this host, until `close`."""

        self._address = address
        self._silence = silence
        host, port = address
        self._ip = _address_of(host, until)
        self._client = CurveClient(self._ip, port, keys, heartbeats(silence))
        self._answers: SimpleQueue[Message] = SimpleQueue()
        self._stream: FrameStream[FromAgent, ToAgent] | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._watch, name="rankmesh-join", daemon=True)

    def join(self, joined: AgentJoin, timeout: float) -> FrameStream[FromAgent, ToAgent]:
        """Join within `timeout` seconds; the connection for all else.

        Raises UsageError where the orchestrator refuses, RankFailed where it does not answer.
        """
        self._client.send(joined)
        self._thread.start()
        try:
            answer = self._answers.get(timeout=timeout)
        except Empty:
            answer = Failed("RankFailed", self._silent(timeout))
        if isinstance(answer, AgentWelcome):
            return self._opened(answer)
        raise (
            error_named(answer.error, answer.text)
            if isinstance(answer, Failed)
            else RankmeshError(f"expected a welcome, got {type(answer).__name__}")
        )

    def addressed(self, invitation: StreamInvitation) -> StreamInvitation:
        """An invitation to the orchestrator's host, as this one reaches it."""
        return msgspec.structs.replace(invitation, host=self._ip)

    def close(self) -> None:
        """End both connections; why the orchestrator has ended one, it may say over the other."""
        if self._stream is not None:
            self._thread.join(_SAID)
        self._closing = True
        self._client.wake()
        if self._thread.is_alive():
            self._thread.join(_CLOSED)
        if self._stream is not None:
            self._stream.free()
        for file in self.shared or ():
            os.close(file)
        self.shared = None

    def _opened(self, welcome: AgentWelcome) -> FrameStream[FromAgent, ToAgent]:
        try:
            sock = self._near(welcome) or self._far(welcome.invitation)
        except OSError as error:
            host, port = self._address
            raise RankFailed(
                f"the orchestrator at {host}:{port} has welcomed this agent, and its port "
                f"{welcome.invitation.port} cannot be reached: {error}. A firewall must let agents "
                "reach all its TCP ports."
            ) from error
        clear = welcome.invitation.clear or self.shared is not None
        seals = caller_seals(welcome.invitation)
        self._stream = FrameStream(sock, seals, clear, encode_from_agent, decode_to_agent)
        if self._client.state.final:
            self._stream.close()
        return self._stream

    def _far(self, invitation: StreamInvitation) -> socket.socket:
        sock = accept(self.addressed(invitation))
        prepare(sock, self._silence)
        return sock

    def _near(self, welcome: AgentWelcome) -> socket.socket | None:
        """A connection to an orchestrator on this host, which shares its arena; None elsewhere."""
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(_CONNECT)
            sock.connect(f"\0{welcome.local}")
            if credentials(sock)[1] != os.geteuid():
                raise ConnectionRefusedError(f"@{welcome.local} is of another user")
        except OSError:
            sock.close()
            return None
        try:
            self.shared = _received_arena(sock, welcome.invitation.token)
        except OSError:
            sock.close()
            raise
        return sock

    def _watch(self) -> None:
        client = self._client
        try:
            while not self._closing and not client.state.final:
                for message in client.receive():
                    self._handle(message)
        finally:
            if client.state is ConnectionState.REFUSED:
                self._answers.put(Failed("UsageError", self._refusal()))
            elif client.state.final:
                self._answers.put(Failed("RankFailed", "the orchestrator is gone"))
            if self._stream is not None:
                self._stream.close()
            client.close()

    def _handle(self, message: Message) -> None:
        if isinstance(message, AgentDismissed):
            self.dismissed = True
            if self._stream is not None:
                self._stream.close()
        elif isinstance(message, AgentWelcome | Failed):
            self._answers.put(message)

    def _silent(self, timeout: float) -> str:
        host, port = self._address
        said = first_words(self._ip, port)
        why = (
            "nothing listens there"
            if said is None
            else "it listens, but does not answer: its process may be stopped"
            if speaks_zeromq(said)
            else "another program listens there, or a firewall is between"
        )
        return f"no orchestrator has answered at {host}:{port} for {timeout:g} s: {why}."

    def _refusal(self) -> str:
        host, port = self._address
        said = None
        with suppress(OSError):
            said = first_words(self._ip, port)
        if said is not None and not speaks_zeromq(said):
            return f"--join {host}:{port}: another program than an orchestrator listens there."
        return (
            f"the orchestrator at {host}:{port} does not take the keys of this agent: the key file "
            "must be the same on all hosts."
        )


def _received_arena(sock: socket.socket, token: bytes) -> SharedArena:
    """The arena of the orchestrator on this host, which shares it for the token. Raises OSError."""
    sock.sendall(token)
    _, files, _ = receive(sock, 1, len(SharedArena._fields))
    if len(files) != len(SharedArena._fields):
        for file in files:
            os.close(file)
        raise ConnectionRefusedError("the orchestrator does not share its memory")
    sock.settimeout(None)
    return SharedArena(*files)


def _address_of(host: str, until: float) -> str:
    while True:
        try:
            return socket.gethostbyname(host)
        except OSError as error:
            if time.monotonic() >= until:
                raise UsageError(f"--join: {host} has no address here: {error}.") from error
        time.sleep(_AGAIN)
