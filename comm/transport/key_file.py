"""Key file of a job on several hosts: two secret keys in a text file, the same on every host."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

import msgspec

from ..errors import UsageError
from ..host.secrecy import keep_secrets

VARIABLE = "RANKMESH_KEY_FILE"
_LONGEST = 4096
_HEAD = "# Rankmesh key file. Keep it secret (mode 0600); every host of the job has the same one."
_LINE = re.compile(r"(server|client)-secret ([0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40})", re.ASCII)


class Keys(msgspec.Struct, frozen=True):
    """The secret keys (CURVE, as Z85 text) of rank 0, which listens, and of the other ranks."""

    server: str
    client: str

    def __post_init__(self) -> None:
        keep_secrets()  # every process that gets keys makes this

    def __repr__(self) -> str:
        return "Keys(...)"  # logs must not have them


def keys_from_environment(environ: Mapping[str, str]) -> Keys:
    """The keys in the file that RANKMESH_KEY_FILE names.

    Without the variable, a UsageError refuses several hosts.
    """
    path = environ.get(VARIABLE)
    if not path:
        raise UsageError(
            f"the ranks are on several hosts, and {VARIABLE} names no key file, without which they "
            "do not talk to each other: run `rankmesh key make FILE` once, copy FILE to every host "
            f"(mode 0600), and set {VARIABLE}=FILE there."
        )
    return read_keys(path)


def read_keys(path: str) -> Keys:
    """Read a key file.

    UsageError where it is not one, or where others than its owner may read or write it. Root's may
    be readable for a group of this user, as Kubernetes mounts a Secret for an fsGroup.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(
            f"the key file {path} cannot be read: {error.strerror}. Correct {VARIABLE}, or make "
            f"one with `rankmesh key make {path}` and copy it to every host."
        ) from error
    with open(fd, "rb") as file:
        _check_owner(path, os.fstat(fd))
        return _parsed(path, file.read(_LONGEST + 1))


def write_keys(path: str, keys: Keys) -> None:
    """Write a new key file with mode 0600; UsageError where the file exists."""
    text = f"{_HEAD}\nserver-secret {keys.server}\nclient-secret {keys.client}\n"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists already, and is kept. Remove it first, or name another file."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}. Name another place."
        ) from error
    with open(fd, "w", encoding="ascii") as file:
        file.write(text)


def _check_owner(path: str, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(
            f"the key file {path} is no regular file. Make one with `rankmesh key make FILE`."
        )
    secret = status.st_uid == 0 and status.st_gid in (os.getgid(), *os.getgroups())
    if status.st_uid != os.getuid() and not secret:
        raise UsageError(
            f"the key file {path} belongs to user {status.st_uid}, expected {os.getuid()}, who "
            "runs this rank. Copy it as that user."
        )
    if mode & (0o037 if secret and os.getuid() else 0o077):
        raise UsageError(
            f"the key file {path} has mode {mode:04o}, so others may know the keys; expected 0600. "
            f"Make new keys if another user may have read it, else `chmod 600 {path}`."
        )


def _parsed(path: str, data: bytes) -> Keys:
    lines = [
        line
        for line in data.decode("ascii", "replace").splitlines()
        if line and not line.startswith("# ")
    ]
    matches = [_LINE.fullmatch(line) for line in lines]
    found = {match[1]: match[2] for match in matches if match}
    if len(data) > _LONGEST or len(lines) != 2 or set(found) != {"server", "client"}:
        raise UsageError(
            f"{path} is no key file: expected the two lines server-secret and client-secret, as "
            "`rankmesh key make FILE` writes them. Make a new one, and copy it to every host."
        )
    return Keys(found["server"], found["client"])
