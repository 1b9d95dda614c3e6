"""Trusted folders: only their user can replace them, or a folder on the way to them."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageError


def make_own_folder(path: str, what: str, instead: str) -> None:
    """Make the folder `path`, and the missing ones on the way to it, with mode 0700.

    Raises UsageError where it cannot be made, belongs to another user or is writable for others.
    The same holds for a folder or link on the way to it: others could put a folder of theirs there.
    Sticky folders, as /tmp, are safe. The message calls the folder `what` and ends with `instead`.
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
        raise UsageError(
            f"{what} must belong to user {os.getuid()}, and no other user may write into it; it "
            f"has {_described(own)}. {instead}"
        )


def require_trusted_owners(path: str, what: str, instead: str) -> None:
    """Raise UsageError if another user owns the folder `path`, or a folder or link on the way.

    Others may write into it: this is for content that both ends check again.
    """
    for step in path_steps(path):
        if not _owner_is_trusted(step.status.st_uid):
            raise UsageError(
                f"{what} {path} is refused: user {step.status.st_uid}, who owns {step.path}, may "
                f"put another folder in its place. {instead}"
            )


def _existing(path: str) -> Iterator[Step]:
    with suppress(FileNotFoundError):
        yield from path_steps(path)


def _make(path: str) -> None:
    if os.path.isdir(path):
        return
    _make(os.path.dirname(os.path.abspath(path)))
    with suppress(FileExistsError):  # another process was first
        os.mkdir(path, 0o700)
    os.listdir(path)  # OSError for a file, or a link that leads nowhere


def _check_way(way: list[Step], what: str, instead: str) -> None:
    for step in way:
        if not (
            _owner_is_trusted(step.status.st_uid) and (step.target or _others_keep_out(step.status))
        ):
            raise UsageError(
                f"{what} is refused: others than user {os.getuid()} may replace what is in "
                f"{step.path} ({_described(step)}), which leads to it. {instead}"
            )


def _described(step: Step) -> str:
    return f"owner {step.status.st_uid}, mode {stat.S_IMODE(step.status.st_mode):o}"


def _owner_is_trusted(owner: int) -> bool:
    return owner in (os.getuid(), 0, _outside())


def _others_keep_out(status: os.stat_result) -> bool:
    """Whether others can replace only their own files in a folder."""
    writable = stat.S_IMODE(status.st_mode) & 0o022
    return (
        not writable
        or bool(status.st_mode & stat.S_ISVTX)
        or (writable == 0o020 and _is_private_group(status.st_gid))
    )


def _is_private_group(group: int) -> bool:
    """Whether a group is the group of this user alone, as distributions make one for each user."""
    try:
        user, members = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (group, members.gr_name) == (user.pw_gid, user.pw_name) and set(members.gr_mem) <= {
        user.pw_name
    }


@cache
def _outside() -> int:
    """The owner that files from outside of this user namespace show, the system's too.

    -1 if there can be none.
    """
    try:
        with open("/proc/sys/kernel/overflowuid") as number, open("/proc/self/uid_map") as ranges:
            outside, mapped = int(number.read()), [list(map(int, line.split())) for line in ranges]
    except (OSError, ValueError):
        return -1
    return -1 if any(first <= outside < first + count for first, _, count in mapped) else outside


def cache_home() -> str:
    """The folder `rankmesh` in XDG_CACHE_HOME, by default in ~/.cache.

    UsageError where the user has no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base.startswith("~"):
        raise UsageError(
            f"user {os.getuid()} has no home folder: HOME is not set, and there is no such "
            "account. Set HOME or XDG_CACHE_HOME to a folder of yours."
        )
    return os.path.join(base, "rankmesh")


_MOST_LINKS = 40
"""Links in a path that the kernel follows."""


class Step(NamedTuple):
    """A folder, file or link on a path; `target` is that of a link, else ""."""

    path: str
    status: os.stat_result
    target: str = ""


def path_steps(path: str) -> Iterator[Step]:
    """The steps from `/` to the file or folder itself.

    Raises OSError at the first one that is missing.
    """
    here, links = "/", 0
    left = deque(str(Path(path).absolute()).split("/"))
    yield Step(here, os.lstat(here))
    while left:
        name = left.popleft()
        if name in ("", ".", ".."):
            here = os.path.dirname(here) if name == ".." else here
            continue
        place = os.path.join(here, name)
        step = Step(place, os.lstat(place))
        if not stat.S_ISLNK(step.status.st_mode):
            here = place
            yield step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(place)
        yield step._replace(target=target)
        here = "/" if target.startswith("/") else here
        left.extendleft(reversed(target.split("/")))
