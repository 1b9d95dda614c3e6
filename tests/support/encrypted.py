"""Encrypted model files as MindSpore writes them, made from plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY = b"0123456789ABCDEF"
# The entries of tests/data/mindir: mode and key.
ENTRIES = {
    "enc_gcm16": ("AES-GCM", KEY),
    "enc_gcm32": ("AES-GCM", KEY * 2),
    "enc_cbc16": ("AES-CBC", KEY),
    "enc_cbc32": ("AES-CBC", KEY * 2),
    "enc_cbc_split": ("AES-CBC", KEY),
    "enc_sm4": ("SM4-CBC", KEY),
}
MAGIC = {
    "AES-GCM": b"\xd8\x5e\x3a\x7f",
    "AES-CBC": b"\xd9\x5e\x3a\x7f",
    "SM4-CBC": b"\xda\x5e\x3a\x7f",
}
VECTOR = bytes(range(16))


def encrypted(
    parts: Sequence[bytes], mode: str = "AES-GCM", key: bytes = KEY, tagless: bool = False
) -> bytes:
    """A file of one segment per part; `tagless` is the layout of old releases, with one magic for
    every mode.
    """
    return b"".join(_segment(part, mode, key, tagless) for part in parts)


def framed(mode: str, tag: bytes, cipher: bytes, tagless: bool = False) -> bytes:
    """One segment around finished cipher text."""
    magic = MAGIC["AES-GCM" if tagless else mode]
    whole, vector, length = (
        n.to_bytes(4, "little") for n in (8 + 16 + len(cipher), 16, len(cipher))
    )
    return magic + tag + whole + vector + VECTOR + length + cipher


def _segment(plain: bytes, mode: str, key: bytes, tagless: bool) -> bytes:
    if mode == "AES-GCM":
        sealed = AESGCM(key).encrypt(VECTOR[:12], plain, None)
        return framed(mode, b"" if tagless else sealed[-16:], sealed[:-16], tagless)
    pad = padding.PKCS7(128).padder()
    algorithm = algorithms.SM4(key) if mode == "SM4-CBC" else algorithms.AES(key)
    encryptor = Cipher(algorithm, modes.CBC(VECTOR)).encryptor()
    return framed(mode, b"", encryptor.update(pad.update(plain) + pad.finalize()), tagless)


def encrypt_file(source: Path, target: Path, mode: str = "AES-GCM", segment: int = 1 << 26) -> Path:
    """Write `source` encrypted, in segments of so many bytes of plain text."""
    content = source.read_bytes()
    target.write_bytes(
        encrypted([content[i : i + segment] for i in range(0, len(content), segment)], mode)
    )
    return target
