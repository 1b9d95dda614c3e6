"""What a rank table may call a server or a device: IP addresses, and for servers host names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from .fault import RankTableFault

MAX_NAME = 64
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)
_MEANT_AS_ADDRESS = re.compile(r"[0-9]+\.[0-9.]*", re.ASCII)


def name_faults(text: str, path: str) -> Iterator[RankTableFault]:
    """The fault that `text` is neither an IP address nor a host name."""
    named = _HOST_NAME.fullmatch(text) and not _MEANT_AS_ADDRESS.fullmatch(text)
    if len(text) > MAX_NAME or not (named or _is_address(text)):
        yield RankTableFault(
            f"got {text[:MAX_NAME]!r}, expected an IP address or a host name (at most {MAX_NAME} characters)", path)


def address_faults(text: str | None, path: str) -> Iterator[RankTableFault]:
    """The fault that `text` is no IP address; None is none."""
    if text is not None and not _is_address(text):
        yield RankTableFault(f"got {text[:MAX_NAME]!r}, expected an IP address such as 192.168.100.101", path)


def _is_address(text: str) -> bool:
    _, scoped, scope = text.partition("%")
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return len(text) <= MAX_NAME and (not scoped or _HOST_NAME.fullmatch(scope) is not None)
