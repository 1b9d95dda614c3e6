"""Server address: the URL of a server, with what a client needs to be let in."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from ....comm.errors import UsageError

TOKEN = "RANKMESH_TOKEN"  # nosec B105  # the name of a variable
_PLAIN = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+")
_SECURE = ("https", "grpcs")
_MOST_TOKEN = 4096


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """PEM files: the authority of the server, and a certificate of the client with its key."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server: `token` and `tls` are None where it wants neither."""

    host: str
    port: int
    token: str | None
    tls: TlsOptions | None

    @property
    def name(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """A context that trusts the authority, or those of the system. Raises UsageError."""
        if self.tls is None:
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls.ca)
            if self.tls.certificate is not None:
                context.load_cert_chain(self.tls.certificate, self.tls.key)
        except OSError as error:  # an SSLError is one
            raise UsageError(f"the files of TLS cannot be used: {error}.") from None
        return context


def is_address(text: str) -> bool:
    """Whether a command's argument is the URL of a server, not a model."""
    return "://" in text or bool(_PLAIN.fullmatch(text)) and not os.path.exists(text)


def address_of(url: str, token_file: str | None, tls: TlsOptions) -> ServerAddress:
    """The server of a URL, or of HOST:PORT; the token is that of a file, else of RANKMESH_TOKEN.

    Raises UsageError.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    schemes = ("http", "grpc", *_SECURE)
    if parts.scheme not in schemes or not parts.hostname or port == -1:
        raise UsageError(
            f"{url}: expected the URL of a server, such as http://localhost:8000 or "
            "https://host:8000."
        )
    if parts.path.strip("/") or parts.query:
        raise UsageError(f"{url}: expected no path: --model NAME chooses the model.")
    secure = parts.scheme in _SECURE
    if not secure and tls != TlsOptions():
        raise UsageError(f"{url}: files of TLS are for https:// and grpcs://.")
    if port is None:
        port = 443 if secure else 80
    return ServerAddress(parts.hostname, port, _token(token_file), tls if secure else None)


def _token(path: str | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(_MOST_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path}: cannot be read: {error}.") from None
    if not token or not token.isprintable():
        raise UsageError(f"--token-file {path}: expected one token, in one line.")
    return token
