"""Decryption of model files: into private memory that never becomes a file."""

from __future__ import annotations

import mmap
from collections.abc import Mapping

import msgspec

from ...comm.errors import ModelError, UsageError
from ...comm.host.secrecy import keep_secrets
from ...comm.loggers import LOG
from .segments import (
    AES_CBC,
    AES_GCM,
    BLOCK,
    MODES,
    SM4_CBC,
    EncryptedSegment,
    mode_of,
    segments_of,
)

VARIABLE = "RANKMESH_KEY"
ALLOWING = "RANKMESH_ALLOW_UNAUTHENTICATED"
_HOW_TO_ALLOW = (
    f"Give the file as it was exported; --allow-unauthenticated ({ALLOWING}=1) gives this "
    f"protection up."
)
_LENGTHS = {AES_GCM: (16, 24, 32), AES_CBC: (16, 24, 32), SM4_CBC: (16,)}


class Decryption(msgspec.Struct, frozen=True):
    """The raw key and the mode of encrypted files; its repr has no key, the process keeps secrets.

    With `allow_unauthenticated`, files for which the key cannot vouch are read too: plain ones, and
    AES-GCM without tags. Of the other modes, which have no tags at all, nothing more is asked.
    """

    key: bytes
    mode: str = AES_GCM
    allow_unauthenticated: bool = False

    def __post_init__(self) -> None:
        keep_secrets()  # here, as every process that gets a key has one of these
        if self.mode not in MODES:
            raise UsageError(
                f"the mode of decryption is '{self.mode}', expected {', '.join(MODES)}."
            )
        if len(self.key) not in _LENGTHS[self.mode]:
            expected = "16, 24 or 32" if len(_LENGTHS[self.mode]) > 1 else "16"
            raise UsageError(
                f"the key has {len(self.key)} bytes, expected {expected} for {self.mode}: give the "
                f"raw bytes that enc_key had at export (as text: two hex digits each)."
            )

    def __repr__(self) -> str:
        return f"Decryption(mode={self.mode!r})"  # keys are not for logs

    def refuse_plain(self, path: str) -> None:
        """Raise ModelError for a plain file, which may stand in for an encrypted one."""
        if not self.allow_unauthenticated:
            raise ModelError(
                f"{path}: is not encrypted, and a key was given: expected a file that was "
                f"encrypted with it ({self.mode}). {_HOW_TO_ALLOW} A model that is not secret "
                f"needs no key."
            )


def decryption_from_hex(text: str, mode: str, source: str, allow: bool = False) -> Decryption:
    """The key in `text`, hex digits of `source`; UsageError, which does not quote them."""
    try:
        return Decryption(bytes.fromhex(text), mode, allow)
    except ValueError:  # its text may quote the key
        raise UsageError(
            f"{source} holds no key: expected its bytes as hex digits, two each, nothing else."
        ) from None


def decryption_from_environment(
    environ: Mapping[str, str], mode: str, allow: bool = False
) -> Decryption | None:
    """The key in RANKMESH_KEY, None where there is none."""
    text = environ.get(VARIABLE, "").strip()
    return decryption_from_hex(text, mode, VARIABLE, allow or allows(environ)) if text else None


def allows(environ: Mapping[str, str]) -> bool:
    """Whether RANKMESH_ALLOW_UNAUTHENTICATED is 1; anything else allows nothing."""
    return environ.get(ALLOWING, "") == "1"


class DecryptedFile(msgspec.Struct, frozen=True):
    """A decrypted file, read-only; `authentic` says that a tag vouches for key and content."""

    data: memoryview
    authentic: bool


def decrypt(path: str, data: memoryview, decryption: Decryption | None) -> DecryptedFile:
    """The plain text of `data`, the bytes of the encrypted file at `path`.

    Takes as much private memory as the cipher text is long. Raises ModelError where the key is
    missing or wrong, or cannot vouch for the file; SegmentError where the file's segments do not
    add up.
    """
    segments = segments_of(data)
    mode, tagged = mode_of(data), bool(segments[0].tag)
    if decryption is None:
        raise _missing_key(path, mode)
    cipher = _agreed(path, mode, tagged, decryption)
    if not tagged and cipher == AES_GCM:
        _without_tags(path, decryption)
    size = sum(segment.length for segment in segments) + BLOCK
    room = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room.madvise(mmap.MADV_DONTDUMP)
    plain, end = memoryview(room), 0
    for segment in segments:
        end += _decrypt(path, data, segment, cipher, decryption.key, plain[end:])
    return DecryptedFile(plain[:end].toreadonly(), cipher == AES_GCM and tagged)


def _missing_key(path: str, mode: str) -> ModelError:
    wanted = "" if mode == AES_GCM else f", and --dec-mode {mode} (dec_mode)"
    return ModelError(
        f"{path}: is encrypted ({mode}), and there is no key: give --key-file FILE, --key HEX or "
        f"{VARIABLE}=HEX, in Python dec_key{wanted}."
    )


def _agreed(path: str, mode: str, tagged: bool, decryption: Decryption) -> str:
    """The mode to decrypt with: the file's, which must be the one asked for.

    Old files of AES-CBC have the mark of AES-GCM, without tags.
    """
    wanted = decryption.mode
    if wanted != mode and not (wanted == AES_CBC and mode == AES_GCM and not tagged):
        raise ModelError(
            f"{path}: is encrypted with {mode}, and {wanted} was asked for: give --dec-mode "
            f'{mode}, in Python dec_mode="{mode}".'
        )
    return wanted


def _without_tags(path: str, decryption: Decryption) -> None:
    """Refuse a file whose tags may have been cut out to change it, unless that is allowed."""
    what = f"{path}: is encrypted with AES-GCM, and has no tags (releases around 1.3 wrote none)"
    if not decryption.allow_unauthenticated:
        raise ModelError(f"{what}: nothing shows whether it was changed. {_HOW_TO_ALLOW}")
    LOG.warning("%s: nothing shows whether it was changed.", what)


def _decrypt(
    path: str, data: memoryview, segment: EncryptedSegment, mode: str, key: bytes, room: memoryview
) -> int:
    """Decrypt one segment into the start of `room`; returns the bytes of its plain text."""
    where = f"{path}: the encrypted segment at byte {segment.offset}"
    if mode != AES_GCM and (segment.length % BLOCK or not segment.length):
        raise ModelError(
            f"{where} has {segment.length} bytes, no positive multiple of {BLOCK} as {mode} has: "
            f"the file is damaged. Export or copy it again."
        )
    try:
        from .ciphers import NoCipher, WrongTag, decrypt_into
    except ImportError as error:
        raise ModelError(
            f"{path}: is encrypted, which needs the Python package cryptography, which cannot be "
            f"imported ({error}): pip install cryptography."
        ) from error
    try:
        decrypt_into(room, data, segment, mode, key)
    except WrongTag:
        raise ModelError(
            f"{where} does not decrypt: wrong key (its tag does not match), or the file is "
            f"damaged. Give the key of the export."
        ) from None
    except NoCipher as error:
        raise ModelError(
            f"{path}: the installed package cryptography cannot do {mode} ({error}): install it "
            f"from its wheel (pip install --force-reinstall cryptography)."
        ) from error
    return (
        segment.length
        if mode == AES_GCM
        else segment.length - _padding(where, mode, room[: segment.length])
    )


def _padding(where: str, mode: str, plain: memoryview) -> int:
    """The length of the padding (PKCS #7, RFC 5652 section 6.3) at the end of `plain`."""
    count = plain[-1]
    if not 1 <= count <= BLOCK or bytes(plain[-count:]) != bytes([count]) * count:
        raise ModelError(
            f"{where} does not decrypt: wrong key or mode (padding of {mode} does not fit), or the "
            f"file is damaged. Give the key and the mode of the export."
        )
    return count
