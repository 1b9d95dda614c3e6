"""TLS files: a certificate, its key and the authorities of clients, checked before their use."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from ....comm.errors import UsageError
from ....comm.host.regular_file import read_regular

_LOG = logging.getLogger("rankmesh.server")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files. With `client_ca` each client has to have a certificate of one of its
    authorities.
    """

    certificate: str
    key: str
    client_ca: str | None = None

    @classmethod
    def named(
        cls, certificate: str | None, key: str | None, client_ca: str | None = None
    ) -> TlsFiles | None:
        """The files of three options; None where none is given. UsageError where one is missing."""
        if certificate is not None and key is not None:
            return cls(certificate, key, client_ca)
        if certificate is None and key is None and client_ca is None:
            return None
        raise UsageError(
            "TLS needs a certificate and its key: give both --tls-certificate and --tls-key."
        )


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """The contents of TLS files, which belong together."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None
    context: ssl.SSLContext

    @classmethod
    def read(cls, files: TlsFiles) -> TlsIdentity:
        """Read and check the files. Raises UsageError that names the one that is wrong."""
        certificate = _content(files.certificate)
        key = _content(files.key)
        _require_pair(files, certificate, key)
        client_ca = None if files.client_ca is None else _content(files.client_ca)
        if files.client_ca is not None and client_ca is not None:
            _certificates(files.client_ca, client_ca)
        return cls(certificate, key, client_ca, _context(files, client_ca))


def _context(files: TlsFiles, client_ca: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    with _told(files.certificate, "TLS refuses it"):
        # without a password, OpenSSL would ask the terminal for that of an encrypted key
        context.load_cert_chain(files.certificate, files.key, password="")  # nosec B106
    if files.client_ca is not None and client_ca is not None:
        with _told(files.client_ca, "TLS refuses it"):
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _require_pair(files: TlsFiles, certificate: bytes, key: bytes) -> None:
    """Raise UsageError where the key is not that of the certificate, and warn where that has
    expired.
    """
    own = _certificates(files.certificate, certificate)[0]
    with _told(files.key, "has no private key that can be read, without a password, in PEM"):
        public = load_pem_private_key(key, None).public_key()
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if own.public_key().public_bytes(*form) != public.public_bytes(*form):
        raise UsageError(
            f"{files.key}: is not the key of the certificate in {files.certificate}, whose own "
            "certificate has to stand first."
        )
    if own.not_valid_after_utc < datetime.now(timezone.utc):
        _LOG.warning(
            "%s: the certificate has expired at %s: clients will refuse it.",
            files.certificate,
            own.not_valid_after_utc,
        )


def _certificates(path: str, content: bytes) -> list[x509.Certificate]:
    with _told(path, "has no certificate that can be read, in PEM"):
        return x509.load_pem_x509_certificates(content)


def _content(path: str) -> bytes:
    try:
        return read_regular(path, _MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None


@contextmanager
def _told(path: str, fault: str) -> Iterator[None]:
    """Errors of the libraries as a UsageError that names the file."""
    try:
        yield
    except (ValueError, TypeError, OSError, UnsupportedAlgorithm) as error:
        reason = str(error).splitlines() or [type(error).__name__]
        raise UsageError(f"{path}: {fault}: {reason[0][:200]}.") from None
