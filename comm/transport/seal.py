"""Seal of a connection: AES-256-GCM over its messages, in one direction and in their order."""

from __future__ import annotations

import os
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TAG = 16
"""Bytes that a seal adds."""

_KEY, _NONCE = 32, 12
_BROKEN = "the other end has other keys, or the bytes were changed"


class SealBroken(ConnectionError):
    """The bytes are not those that the other end has sealed next."""


class SealKeys(NamedTuple):
    """The two keys of one connection: each end seals with its own."""

    listener: bytes
    caller: bytes

    @classmethod
    def new(cls) -> SealKeys:
        """Keys for one connection; each nonce counts from 0, so that no other may use them."""
        return cls(os.urandom(_KEY), os.urandom(_KEY))


class Seal:
    """One direction of a connection. Bytes that are left out, repeated or changed are noticed."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._number = 0

    def close(self, data: bytes | memoryview, about: bytes = b"") -> bytes:
        """Seal the next bytes, and vouch for `about`, which goes in clear."""
        return self._cipher.encrypt(self._nonce(), data, about)

    def open(self, data: bytes, about: bytes = b"") -> bytes:
        """Open the next bytes. Raises SealBroken."""
        try:
            return self._cipher.decrypt(self._nonce(), data, about)
        except InvalidTag as error:
            raise SealBroken(_BROKEN) from error

    def open_into(self, data: memoryview, room: memoryview) -> None:
        """As `open`, into `room`, which has as many bytes as were sealed. Raises SealBroken."""
        try:
            self._cipher.decrypt_into(self._nonce(), data, None, room)
        except InvalidTag as error:
            raise SealBroken(_BROKEN) from error

    def _nonce(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(_NONCE, "little")
