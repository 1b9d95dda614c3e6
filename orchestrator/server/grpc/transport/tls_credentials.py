"""TLS credentials of gRPC: each handshake has the files of that moment."""

from __future__ import annotations

from collections.abc import Callable

from ...access.tls_files import TlsIdentity
from .library import grpc


def tls_credentials(current: Callable[[], TlsIdentity]) -> grpc.ServerCredentials:
    """Credentials of the current identity, whether or not it has changed since the last call."""
    used = current()

    def changed() -> object | None:
        nonlocal used
        if current() is used:
            return None
        used = current()
        return _configuration(used)

    first = _configuration(used)
    return grpc.dynamic_ssl_server_credentials(first, changed, used.client_ca is not None)


def _configuration(identity: TlsIdentity) -> object:
    pair = identity.key, identity.certificate
    return grpc.ssl_server_certificate_configuration([pair], identity.client_ca)
