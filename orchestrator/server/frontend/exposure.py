"""Exposure of a server: warns where other hosts can reach it without TLS or without tokens."""

from __future__ import annotations

import logging
from ipaddress import ip_address

from .settings import ServerSettings

_LOG = logging.getLogger("rankmesh.server")


def warn_if_exposed(settings: ServerSettings) -> None:
    """Tell what is missing where the server listens on other addresses than this host's own."""
    if _is_local(settings.host):
        return
    if settings.tls is None:
        _LOG.warning(
            "the server listens on %s without TLS: others on the way can read and change requests "
            "(--tls-certificate, --tls-key).",
            settings.host,
        )
    named = settings.access.tokens is not None
    if not named and (settings.tls is None or settings.tls.client_ca is None):
        _LOG.warning(
            "the server listens on %s without tokens: every program that reaches it may send "
            "requests (--tokens).",
            settings.host,
        )


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
