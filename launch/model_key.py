"""The key of an encrypted model, from the command line, a file or the environment; hex digits in all three."""

from __future__ import annotations

from collections.abc import Mapping

from ..comm.errors import UsageError
from ..comm.regular_file import read_file_or_pipe
from ..worker.mindir.crypto import VARIABLE, Decryption, allows, decryption_from_environment, decryption_from_hex

_LONGEST = 4096
"""Bytes of a key file: the longest key has 64 hex digits."""

_SECONDS = 10.0
"""How long a program that writes the key into a pipe may take."""


def model_key(key: str | None, key_file: str | None, mode: str, environ: Mapping[str, str],
              allow: bool = False) -> Decryption | None:
    """What the options say, else RANKMESH_KEY; None where neither gives a key. UsageError never shows it.

    `allow` is whether models for which the key cannot vouch are read too; so may the environment say.
    """
    allow = allow or allows(environ)
    if key is not None and key_file is not None:
        raise UsageError("--key and --key-file both give the key: leave one away.")
    if key is not None:
        return decryption_from_hex(key, mode, "--key", allow)
    if key_file is not None:
        return decryption_from_hex(_read(key_file), mode, key_file, allow)
    return decryption_from_environment(environ, mode, allow)


def _read(path: str) -> str:
    try:
        return read_file_or_pipe(path, _LONGEST, _SECONDS).decode("ascii", "replace").strip()
    except OSError as error:
        raise UsageError(f"--key-file {path}: cannot be read: {error.strerror}. It holds the key of a model, "
                         f"as hex digits; {VARIABLE} may hold them instead.") from error
