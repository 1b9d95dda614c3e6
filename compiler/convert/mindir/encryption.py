"""Encryption of written files: a stream in segments, as MindSpore writes and reads it.

docs/mindir.md has the layout. compiler/mindir/segments.py reads it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from ....comm.errors import UsageError
from ...mindir.segments import AES_GCM, BLOCK, MAGIC_OF, SM4_CBC
from .segmented_file import FileRange, Part, Written

_SEGMENT = 64 << 20
"""Bytes of plain text in a segment, at most."""

_NONCE = 12
_KEYS = {16, 24, 32}


@dataclass(frozen=True, slots=True, repr=False)
class Encryption:
    """A key and a mode (AES-GCM, AES-CBC or SM4-CBC); the key is in no text."""

    key: bytes
    mode: str

    def __post_init__(self) -> None:
        """Raise UsageError for a key of a wrong length."""
        allowed = {16} if self.mode == SM4_CBC else _KEYS
        if len(self.key) not in allowed:
            lengths = ", ".join(map(str, sorted(allowed)))
            raise UsageError(
                f"a key of {self.mode} has {lengths} bytes, and this one has {len(self.key)}."
            )


class EncryptedFile:
    """See SegmentedFile: what is written is encrypted, in segments of at most 64 MiB."""

    def __init__(self, file: Written, encryption: Encryption) -> None:
        self._file = file
        self._encryption = encryption
        self._plain = bytearray()

    def write(self, part: Part) -> None:
        """Add plain bytes."""
        self._plain += part
        while len(self._plain) >= _SEGMENT:
            self._end(_SEGMENT)

    def copy(self, source: FileRange) -> bool:
        """See SegmentedFile: bytes are read to be encrypted."""
        return False

    def end_segment(self) -> None:
        """End the segment here: what comes next is decrypted by itself."""
        if self._plain:
            self._end(len(self._plain))

    def _end(self, length: int) -> None:
        plain = bytes(self._plain[:length])
        del self._plain[:length]
        self._file.write(segment(plain, self._encryption))


def segment(plain: bytes, encryption: Encryption) -> bytes:
    """One segment: its header, and `plain` encrypted with a vector of its own."""
    vector = os.urandom(BLOCK)
    encrypt = _gcm if encryption.mode == AES_GCM else _cbc
    tag, cipher = encrypt(plain, vector, encryption)
    whole = 2 * 4 + len(vector) + len(cipher)
    numbers = [number.to_bytes(4, "little") for number in (whole, len(vector), len(cipher))]
    return MAGIC_OF[encryption.mode] + tag + numbers[0] + numbers[1] + vector + numbers[2] + cipher


def _gcm(plain: bytes, vector: bytes, encryption: Encryption) -> tuple[bytes, bytes]:
    """The tag and the cipher text; the nonce is the begin of the vector that is stored."""
    encryptor = Cipher(algorithms.AES(encryption.key), modes.GCM(vector[:_NONCE])).encryptor()
    cipher = encryptor.update(plain) + encryptor.finalize()
    return encryptor.tag, cipher


def _cbc(plain: bytes, vector: bytes, encryption: Encryption) -> tuple[bytes, bytes]:
    """No tag, and the cipher text, padded by PKCS 7."""
    algorithm = algorithms.SM4 if encryption.mode == SM4_CBC else algorithms.AES
    encryptor = Cipher(algorithm(encryption.key), modes.CBC(vector)).encryptor()
    padding = PKCS7(8 * BLOCK).padder()
    padded = padding.update(plain) + padding.finalize()
    return b"", encryptor.update(padded) + encryptor.finalize()
