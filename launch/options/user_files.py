"""Files that options name: configurations, rank tables, keys; each fault is a UsageError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...comm.errors import UsageError
from ...compiler.model_file.config import Config

if TYPE_CHECKING:
    from ...compiler.mindir.crypto import Decryption
    from ...rank_tables.table import RankTable

_LONGEST_KEY_FILE = 4096
"""Bytes; the longest key has 64 hex digits."""

_SECONDS = 10.0
"""Seconds that a program may take to write the key into a pipe."""


def read_config(path: str | None) -> Config:
    """Read the .ini file at `path`; without a path, an empty configuration. Raises UsageError."""
    try:
        return Config.read(path) if path else Config()
    except ValueError as error:
        raise UsageError(str(error)) from error


def read_rank_table(path: str) -> RankTable:
    """Read a rank table; UsageError names the file, the JSON path and the fault."""
    from ...rank_tables.fault import RankTableFault  # ranks have no use for these
    from ...rank_tables.table import RankTable

    try:
        return RankTable.read(path)
    except RankTableFault as fault:
        raise UsageError(str(fault)) from fault


def model_key(
    key: str | None,
    key_file: str | None,
    mode: str,
    environ: Mapping[str, str],
    allow: bool = False,
) -> Decryption | None:
    """The key of an encrypted model: of `--key`, of `--key-file`, else of RANKMESH_KEY.

    All three are hex digits. None: there is no key. `allow`, or a variable in `environ`, permits
    models that the key cannot authenticate. Raises UsageError, which never shows a key.
    """
    from ...compiler.mindir import crypto

    allow = allow or crypto.allows(environ)
    if key is not None and key_file is not None:
        raise UsageError("--key and --key-file both give the key: leave one out.")
    if key is not None:
        return crypto.decryption_from_hex(key, mode, "--key", allow)
    if key_file is not None:
        return crypto.decryption_from_hex(_read_key(key_file), mode, key_file, allow)
    return crypto.decryption_from_environment(environ, mode, allow)


def _read_key(path: str) -> str:
    from ...comm.host.regular_file import read_file_or_pipe
    from ...compiler.mindir.crypto import VARIABLE

    try:
        data = read_file_or_pipe(path, _LONGEST_KEY_FILE, _SECONDS)
    except OSError as error:
        raise UsageError(
            f"--key-file {path}: cannot be read: {error.strerror}. Expected a file with the key "
            f"of a model, as hex digits; {VARIABLE} may contain them instead."
        ) from error
    return data.decode("ascii", "replace").strip()
