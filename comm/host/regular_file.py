"""Regular files: users' files, read up to a bound; pipes too where a key may come by one."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from typing import BinaryIO

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def open_regular(path: str) -> BinaryIO:
    """Open the file at `path` for reading.

    Raises OSError, with the reason as `strerror`, for anything but a regular file. A pipe would
    have to be waited for, and a device may never end.
    """
    try:
        file = open(path, "rb", opener=_at_once)
    except ValueError as error:  # a path with a null character
        raise OSError(errno.EINVAL, str(error), path) from error
    kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
    if kind != stat.S_IFREG:
        file.close()
        raise OSError(
            errno.EINVAL,
            f"it is {_KINDS.get(kind, 'something else')}, expected a regular file",
            path,
        )
    return file


def read_regular(path: str, most: int) -> bytes:
    """The content of the regular file at `path`.

    Raises OSError as `open_regular`, and where the file has more than `most` bytes.
    """
    with open_regular(path) as file:
        # None: a file of the kernel without content now
        return _bounded(file.read(most + 1) or b"", most, path)


def read_file_or_pipe(path: str, most: int, seconds: float) -> bytes:
    """As `read_regular`, and of pipes too, such as a shell's `<(command)`.

    The writer of a pipe must end within `seconds`.
    """
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return read_regular(path, most)
    with open(path, "rb", buffering=0, opener=_at_once) as pipe:
        content, ready, deadline = b"", select.poll(), time.monotonic() + seconds
        ready.register(pipe, select.POLLIN)
        while ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            part = pipe.read(most + 1 - len(content))
            if part == b"":  # None: another reader has taken it
                return content
            content = _bounded(content + (part or b""), most, path)
    raise OSError(
        errno.ETIMEDOUT, f"it is a pipe whose writer has not ended within {seconds:g} s", path
    )


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _bounded(content: bytes, most: int, path: str) -> bytes:
    """The content, which may have `most` bytes."""
    if len(content) > most:
        size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"
        raise OSError(
            errno.EFBIG, f"it is longer than {size}, the most that such a file may have", path
        )
    return content
