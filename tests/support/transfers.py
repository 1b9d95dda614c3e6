"""Transfers between two ends of this process: an offer on one side of a socket pair."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from rankmesh.comm.host.stamp import Stamp
from rankmesh.comm.transfer.file_offer import FileOffer, Told
from rankmesh.comm.transfer.messages import (
    FromHost,
    OfferedFile,
    ToHost,
    Want,
    decode_from_host,
    decode_to_host,
    encode,
)
from rankmesh.comm.transfer.model_files import ListedFiles, LocalFile
from rankmesh.comm.transport.message_stream import ChannelClosed, MessageStream

HostEnd = MessageStream[FromHost, ToHost]


def local_file(path: Path, name: str) -> LocalFile:
    data = path.read_bytes()
    digest = blake2b(data, digest_size=32).hexdigest()
    return LocalFile(Stamp.of(str(path)), OfferedFile(name, len(data), digest))


class OfferingEnd:
    """The end of a transfer that offers `files`, in a thread; it notes the `wants` that came.

    After `replies` of them the connection is cut.
    """

    def __init__(
        self, files: list[LocalFile], replies: int = 1 << 30, told: Told | None = None
    ) -> None:
        self.offer = FileOffer("bert", ListedFiles("bert_rank{rank}.mindir", tuple(files)), told)
        self.wants: list[Want] = []
        self._replies = replies

    @contextmanager
    def connected(self) -> Iterator[HostEnd]:
        """The host's end of a connection to this one."""
        ours, theirs = socket.socketpair()
        theirs.settimeout(30)
        stream = MessageStream[ToHost, FromHost](ours, encode, decode_from_host)
        thread = threading.Thread(target=self._answer, args=(stream, ours))
        thread.start()
        try:
            yield HostEnd(theirs, encode, decode_to_host)
        finally:
            theirs.close()
            thread.join(30)
            self.offer.close()

    def _answer(self, stream: MessageStream[ToHost, FromHost], sock: socket.socket) -> None:
        try:
            while isinstance(want := stream.receive(), Want):
                if len(self.wants) < self._replies:
                    self.wants.append(want)
                    stream.send(self.offer.reply(want))
                else:  # what was sent before arrives all the same
                    sock.shutdown(socket.SHUT_WR)
        except ChannelClosed:
            pass
        finally:
            stream.close()
