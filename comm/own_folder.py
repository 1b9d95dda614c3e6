"""Folders whose content is trusted: the user's own, with nobody else able to put another in their place."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from .errors import UsageError
from .path_steps import Step, path_steps


def make_own_folder(path: str, what: str, instead: str) -> None:
    """Make the folder `path`, and those that are missing around it, with mode 0700.

    Raises UsageError, which calls the folder `what` and ends with `instead`, where it cannot be made, belongs to
    another user or may be written by others, or where that holds for a folder or link on the way to it: others could
    put a folder of theirs there. Sticky folders, as /tmp, are no such way.
    """
    what = f"{what} {path}"
    try:
        missing = not os.path.exists(path)
        way = list(_existing(path))
        _check_way(way if missing else way[:-1], what, instead)
        _make(path)
        *way, own = path_steps(path)
    except OSError as error:
        raise UsageError(f"{what} cannot be made: {error.strerror}. {instead}") from error
    _check_way(way, what, instead)
    if own.status.st_uid != os.getuid() or stat.S_IMODE(own.status.st_mode) & 0o022:
        raise UsageError(f"{what} must belong to user {os.getuid()}, and nobody else may write into it; it has "
                         f"{_described(own)}. {instead}")


def require_trusted_owners(path: str, what: str, instead: str) -> None:
    """UsageError as above where another user owns the folder `path`, or a folder or link on the way to it.

    Others may write into it: this is for what both ends check again.
    """
    for step in path_steps(path):
        if not _owner_is_trusted(step.status.st_uid):
            raise UsageError(f"{what} {path} is refused: user {step.status.st_uid}, who owns {step.path}, may put "
                             f"another folder in its place. {instead}")


def _existing(path: str) -> Iterator[Step]:
    with suppress(FileNotFoundError):
        yield from path_steps(path)


def _make(path: str) -> None:
    if os.path.isdir(path):
        return
    _make(os.path.dirname(os.path.abspath(path)))
    with suppress(FileExistsError):  # another process was first
        os.mkdir(path, 0o700)
    os.listdir(path)  # a file, or a link to nothing, is an error of its own


def _check_way(way: list[Step], what: str, instead: str) -> None:
    for step in way:
        if not (_owner_is_trusted(step.status.st_uid) and (step.target or _others_keep_out(step.status))):
            raise UsageError(f"{what} is refused: others than user {os.getuid()} may replace what is in {step.path} "
                             f"({_described(step)}), which leads to it. {instead}")


def _described(step: Step) -> str:
    return f"owner {step.status.st_uid}, mode {stat.S_IMODE(step.status.st_mode):o}"


def _owner_is_trusted(owner: int) -> bool:
    return owner in (os.getuid(), 0, _outside())


def _others_keep_out(status: os.stat_result) -> bool:
    """Whether others can replace nothing in a folder, but what is theirs."""
    writable = stat.S_IMODE(status.st_mode) & 0o022
    return not writable or bool(status.st_mode & stat.S_ISVTX) or (
        writable == 0o020 and _is_private_group(status.st_gid))


def _is_private_group(group: int) -> bool:
    """Whether a group is the user's alone, as distributions make one for each user."""
    try:
        user, members = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (group, members.gr_name) == (user.pw_gid, user.pw_name) and set(members.gr_mem) <= {user.pw_name}


@cache
def _outside() -> int:
    """The owner that files from outside of this user namespace show, the system's too; -1 if there can be none."""
    try:
        with open("/proc/sys/kernel/overflowuid") as number, open("/proc/self/uid_map") as ranges:
            outside, mapped = int(number.read()), [list(map(int, line.split())) for line in ranges]
    except (OSError, ValueError):
        return -1
    return -1 if any(first <= outside < first + count for first, _, count in mapped) else outside
