"""Ciphers of encrypted model files: AES and SM4 by the package cryptography.

Importing this needs that package; it is imported when a file is encrypted.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from .segments import AES_GCM, BLOCK, SM4_CBC, EncryptedSegment

_NONCE = 12  # of the 16 bytes stored
_STEP = 1 << 24


class WrongTag(ValueError):
    """The tag of a segment does not vouch for its plain text: wrong key, or damage."""


class NoCipher(ValueError):
    """The installed package cannot do the mode."""


def decrypt_into(
    room: memoryview, data: memoryview, segment: EncryptedSegment, mode: str, key: bytes
) -> None:
    """Decrypt a segment into the start of `room`, which is a block longer; padding stays.

    Raises WrongTag and NoCipher. Whole blocks only, where the mode is one of blocks.
    """
    try:
        decryptor = _decryptor(segment, mode, key)
    except (UnsupportedAlgorithm, AttributeError) as error:
        raise NoCipher(f"{error}") from error
    for at in range(0, segment.length, _STEP):
        stop = min(at + _STEP, segment.length)
        decryptor.update_into(
            data[segment.start + at : segment.start + stop], room[at : stop + BLOCK - 1]
        )
    try:
        decryptor.finalize()
    except InvalidTag as error:
        raise WrongTag("the tag does not match") from error


def _decryptor(segment: EncryptedSegment, mode: str, key: bytes) -> CipherContext:
    nonce = segment.vector[:_NONCE]
    if mode == AES_GCM and segment.tag:
        return Cipher(algorithms.AES(key), modes.GCM(nonce, segment.tag)).decryptor()
    if (
        mode == AES_GCM
    ):  # without its tag it is counter mode from 2 on (NIST SP 800-38D, section 7.1)
        return Cipher(algorithms.AES(key), modes.CTR(nonce + (2).to_bytes(4, "big"))).decryptor()
    algorithm = algorithms.SM4 if mode == SM4_CBC else algorithms.AES
    return Cipher(algorithm(key), modes.CBC(segment.vector)).decryptor()
