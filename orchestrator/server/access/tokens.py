"""Tokens: a file of names, hashes, roles and rates, which only its owner may read."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import yaml

from ....comm.errors import UsageError
from ....comm.host.regular_file import read_regular
from .rates import RequestRate
from .roles import AccessRole

_MOST_BYTES = 1 << 20
_SHORTEST = 16
_DIGITS = 64


class TokenEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One token as its file has it; `sha256` is the hash of a `token` in hexadecimal digits."""

    name: str
    token: str | None = None
    sha256: str | None = None
    roles: tuple[AccessRole, ...] = (AccessRole.INFER,)
    rate: float | None = None
    burst: float | None = None


class TokenDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A whole file."""

    tokens: list[TokenEntry]


@dataclass(frozen=True, slots=True)
class AccessToken:
    """One token: the name that logs have, its hash, and what it permits."""

    name: str
    digest: bytes
    roles: frozenset[AccessRole]
    rate: RequestRate | None


class AccessTokens:
    """All tokens of one file."""

    def __init__(self, tokens: Sequence[AccessToken]) -> None:
        self._tokens = tokens

    @classmethod
    def read(cls, path: str) -> AccessTokens:
        """The tokens of a file. Raises UsageError that names the file, and never shows a token."""
        try:
            document = msgspec.convert(yaml.safe_load(_content(path)), TokenDocument)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            raise UsageError(f"{path}{line}: is no YAML.") from None
        except (msgspec.ValidationError, RecursionError) as error:
            raise UsageError(f"{path}: {error}.") from None
        entries = document.tokens
        found = [_token(path, entry) for entry in entries]
        for what, values in (
            ("name", [one.name for one in found]),
            ("token", [one.digest.hex() for one in found]),
        ):
            if len(set(values)) < len(values):
                raise UsageError(f"{path}: two tokens have the same {what}.")
        return cls(found)

    def find(self, secret: bytes) -> AccessToken | None:
        """The token of a secret; the time does not tell how much of it is right."""
        digest = hashlib.sha256(secret).digest()
        found = None
        for one in self._tokens:
            if hmac.compare_digest(one.digest, digest):
                found = one
        return found


def _token(path: str, entry: TokenEntry) -> AccessToken:
    place = f"{path}: the token {entry.name!r}"
    if (entry.token is None) == (entry.sha256 is None):
        raise UsageError(f"{place}: expected either `sha256` or `token`.")
    if entry.rate is not None and not entry.rate > 0:
        raise UsageError(f"{place}: got the rate {entry.rate}, expected more than 0.")
    rate = RequestRate.of(entry.rate, entry.burst)
    return AccessToken(entry.name, _digest(place, entry), frozenset(entry.roles), rate)


def _digest(place: str, entry: TokenEntry) -> bytes:
    if entry.token is not None:
        if len(entry.token) < _SHORTEST:
            raise UsageError(f"{place}: a token has at least {_SHORTEST} characters.")
        return hashlib.sha256(entry.token.encode()).digest()
    digits = (entry.sha256 or "").lower()
    if len(digits) != _DIGITS or not set(digits) <= set("0123456789abcdef"):
        raise UsageError(f"{place}: expected `sha256` of {_DIGITS} hexadecimal digits.")
    return bytes.fromhex(digits)


def _content(path: str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        content = read_regular(path, _MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    if mode & stat.S_IRWXO:
        raise UsageError(f"{path}: others may read or write it: chmod o= {path}")
    return content
