"""Shared memory object of a client: opened by its key, where the client may name it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from stat import S_ISREG

from ....comm.errors import InputError, UsageError

FOLDER = "/dev/shm"  # nosec B108  # where Linux has the objects of shm_open
OWN_PREFIX = "rankmesh"
"""Names that begin like this are the server's own."""

_LONGEST_KEY = 255
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def checked_prefixes(prefixes: Sequence[str]) -> tuple[str, ...]:
    """Prefixes of keys without their first slash; UsageError where one leaves too much open."""
    for prefix in prefixes:
        plain = prefix.removeprefix("/")
        if not plain or "/" in plain or plain.startswith(OWN_PREFIX):
            raise UsageError(
                f"--shared-memory-prefix: got '{prefix}', expected the beginning of the keys of "
                f"clients, such as '/camera-': without a folder, and not '{OWN_PREFIX}'."
            )
    return tuple(prefix.removeprefix("/") for prefix in prefixes)


def opened(key: str, prefixes: tuple[str, ...]) -> int:
    """A descriptor of the client's memory `key`.

    Raises InputError with the same sentence whether there is no such memory, or it is another
    user's: clients learn nothing about what they may not use.
    """
    name = key.removeprefix("/")
    if not _allowed(name, prefixes):
        raise InputError(
            "this key is none that clients may use: it begins with no --shared-memory-prefix of "
            "the server, or is no plain name."
        )
    try:
        descriptor = os.open(f"{FOLDER}/{name}", _FLAGS)
    except OSError:
        raise _unusable() from None
    found = os.fstat(descriptor)
    if S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    raise _unusable()


def _allowed(name: str, prefixes: tuple[str, ...]) -> bool:
    return (
        name.startswith(prefixes)
        and not name.startswith(OWN_PREFIX)
        and "/" not in name
        and name.isprintable()
        and len(name.encode()) <= _LONGEST_KEY
    )


def _unusable() -> InputError:
    return InputError(
        "there is no shared memory with this key that the server may use: it has to be a regular "
        "one of the server's own user."
    )
