"""TLS of one server: the files in use, for the handshakes of HTTP and of gRPC."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

from ....comm.errors import UsageError
from ..access.tls_files import TlsFiles, TlsIdentity
from ..http.acceptor import Acceptor
from ..http.connections import OpenConnections
from ..http.tls_listener import TlsListener

if TYPE_CHECKING:
    import grpc

_LOG = logging.getLogger("rankmesh.server")


class ServerTls:
    """The identity in use, which each handshake takes anew."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises UsageError where the files cannot be used."""
        self._files = files
        self._identity = TlsIdentity.read(files)

    def reload(self) -> None:
        """Use the files as they are now; where they cannot be used, go on with the last ones."""
        try:
            self._identity = TlsIdentity.read(self._files)
        except UsageError as error:
            _LOG.error("the files of TLS stay as they were: %s", error)
        else:
            _LOG.info("the files of TLS were read again")

    def listen(
        self, connections: OpenConnections, sock: socket.socket, acceptor: Acceptor
    ) -> TlsListener:
        """Take connections of HTTP at a socket that listens."""
        return TlsListener(connections, lambda: self._identity.context, sock, acceptor)

    def credentials(self) -> grpc.ServerCredentials:
        """The credentials of gRPC."""
        from ..grpc.transport.tls_credentials import tls_credentials  # grpcio costs 0.4 s

        return tls_credentials(lambda: self._identity)
