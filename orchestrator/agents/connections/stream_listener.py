"""Stream listener: a port and a local socket where agents and ranks open connections of orders."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ....comm.transport.local_socket import credentials
from ....comm.transport.seal import SealKeys
from ....comm.transport.stream_invitation import StreamInvitation

_LOG = logging.getLogger("rankmesh.orchestrator")
TOKEN = 32
_HANDSHAKE = 3.0
_MOST = 64
_LOOK = 0.5


class _Caller(NamedTuple):
    """A connection that has not shown its token yet, and until when it may."""

    sock: socket.socket
    said: bytearray
    until: float


class StreamListener:
    """Gives each connection to what awaits its token; others end. A thread of its own.

    Agents on this host come by an abstract socket, if the kernel says that they are of this user.
    They may have another file system, so that its name is in none.
    """

    def __init__(self, address: str) -> None:
        """Listen at any port of an address; OSError where there is none."""
        self._listener = socket.create_server((address, 0))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self.local = f"rankmesh-{secrets.token_hex(16)}"
        self._local = socket.socket(socket.AF_UNIX)
        self._local.bind(f"\0{self.local}")
        self._local.listen()
        self._local.setblocking(False)
        self._expected: dict[bytes, Callable[[socket.socket], None]] = {}
        self._callers: dict[int, _Caller] = {}
        self._selector = selectors.DefaultSelector()
        for listener in (self._listener, self._local):
            self._selector.register(listener, selectors.EVENT_READ)
        self._open = True
        self._thread = threading.Thread(target=self._serve, name="rankmesh-streams", daemon=True)
        self._thread.start()

    def expect(self, taken: Callable[[socket.socket], None]) -> bytes:
        """A new token; `taken` is given the connection that shows it, once, in this thread."""
        token = os.urandom(TOKEN)
        self._expected[token] = taken
        return token

    def invite(
        self, clear: bool, taken: Callable[[socket.socket, SealKeys], None]
    ) -> StreamInvitation:
        """An invitation to a connection, of which `taken` is given the keys as well."""
        keys = SealKeys.new()
        token = self.expect(lambda sock: taken(sock, keys))
        return StreamInvitation(self.port, token, keys.listener, keys.caller, clear)

    def forget(self, token: bytes) -> None:
        """Expect a token no more."""
        self._expected.pop(token, None)

    def close(self) -> None:
        """Listen no more."""
        self._open = False
        self._thread.join()

    def _serve(self) -> None:
        while self._open:
            for key, _ in self._selector.select(_LOOK):
                if key.fileobj in (self._listener, self._local):
                    self._accept(key.fileobj)
                elif key.fd in self._callers:  # else it has just made room for another one
                    self._read(self._callers[key.fd])
            now = time.monotonic()
            for caller in list(self._callers.values()):
                if caller.until < now:
                    self._end(caller)
        for caller in list(self._callers.values()):
            self._end(caller)
        self._selector.close()
        self._listener.close()
        self._local.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            sock, _ = listener.accept()
            if listener is self._local and credentials(sock)[1] != os.geteuid():
                sock.close()
                return
            sock.setblocking(False)
            if len(self._callers) >= _MOST:
                self._end(next(iter(self._callers.values())))
            caller = _Caller(sock, bytearray(), time.monotonic() + _HANDSHAKE)
            self._callers[sock.fileno()] = caller
            self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, caller: _Caller) -> None:
        try:
            data = caller.sock.recv(TOKEN - len(caller.said))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        caller.said.extend(data)
        if not data:
            self._end(caller)
        elif len(caller.said) == TOKEN:
            self._admit(caller)

    def _admit(self, caller: _Caller) -> None:
        said = bytes(caller.said)
        known = [token for token in list(self._expected) if hmac.compare_digest(token, said)]
        if not known:
            self._end(caller)
            return
        taken = self._expected.pop(known[0], None)
        self._forget(caller)
        if taken is None:
            caller.sock.close()
            return
        try:
            caller.sock.setblocking(True)
            taken(caller.sock)
        except (OSError, RuntimeError) as error:  # no descriptor or thread is left: for this one
            _LOG.warning("the connection of an agent or rank cannot be kept: %s", error)
            caller.sock.close()

    def _end(self, caller: _Caller) -> None:
        self._forget(caller)
        caller.sock.close()

    def _forget(self, caller: _Caller) -> None:
        self._selector.unregister(caller.sock)
        del self._callers[caller.sock.fileno()]
