"""Conversion settings: name the model, its result, and the changes on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...comm.errors import UsageError

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption
    from .mindir.encryption import Encryption


@dataclass(frozen=True, slots=True)
class LastChannels:
    """Whether the images that a converted model takes, and gives, have their channels last."""

    inputs: bool = False
    outputs: bool = False


@dataclass(frozen=True, slots=True)
class ConversionSettings:
    """The settings of one conversion.

    `output` is a path without or with the suffix of the form: `.mindir`, or with `lite` `.ms`.
    `shapes` has the shapes of inputs by name. With `half_weights` weights of float32 are stored as
    float16.
    """

    model: str
    output: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    half_weights: bool = False
    decryption: Decryption | None = None
    encryption: Encryption | None = None
    lite: bool = False
    last_channels: LastChannels = LastChannels()
    notes: Mapping[str, str] = field(default_factory=dict)
    """Notes for `user_info` of the result, besides its source."""


def shapes_of(text: str) -> dict[str, tuple[int, ...]]:
    """The shapes in `NAME:1,3,224,224;NAME:1,77`; UsageError for another text.

    A name may have colons of its own.
    """
    found: dict[str, tuple[int, ...]] = {}
    for one in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, sizes = one.rpartition(":")
        numbers = [size.strip() for size in sizes.split(",")] if sizes.strip() else []
        if not colon or not name or not all(_is_size(size) for size in numbers):
            raise UsageError(
                f"the input shape '{one}': expected NAME:SIZE,SIZE,... such as x:1,3,224,224."
            )
        found[name.strip()] = tuple(int(size) for size in numbers)
    return found


def decryption_of(key: str, mode: str) -> Decryption | None:
    """The key in hexadecimal digits that opens the model; None for no key. Raises UsageError."""
    if not key:
        return None
    from ..mindir.crypto import decryption_from_hex

    return decryption_from_hex(key, mode, "decrypt_key")


def encryption_of(key: str, mode: str = "AES-GCM") -> Encryption:
    """The key in hexadecimal digits that the result is encrypted with. Raises UsageError, which
    does not quote it.
    """
    from .mindir.encryption import Encryption

    try:
        return Encryption(bytes.fromhex(key), mode)
    except ValueError:
        raise UsageError(
            "encrypt_key holds no key: expected its bytes as hex digits, two each."
        ) from None


def _is_size(text: str) -> bool:
    return text.isdecimal() and int(text) > 0 or text == "-1"
