"""Private folder: a folder on disk for one process, removed with it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path

from ..errors import UsageError
from .own_folder import cache_home, make_own_folder

_INSTEAD = "Set XDG_CACHE_HOME to a folder of yours."
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TRIES = 100


class PrivateFolder:
    """A new folder in the user's cache folder, mode 0700, removed with this object.

    The end of the process removes it at the latest. The folders of killed processes are removed
    when the next process makes one.
    """

    def __init__(self, kind: str) -> None:
        """`kind` groups such folders. Raises UsageError where none can be made."""
        home = Path(cache_home()) / kind
        make_own_folder(str(home), "the folder", _INSTEAD)
        try:
            _sweep(home)
            self.path, lock = _made(home)
        except OSError as error:
            raise UsageError(
                f"{home}: no folder can be made there: {error.strerror}. {_INSTEAD}"
            ) from error
        self._end = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove the folder now; mapped files stay mapped."""
        self._end()


def _made(home: Path) -> tuple[Path, int]:
    """A new folder and its lock, which the kernel releases when the process ends.

    The sweep of another process removes a folder that is not locked yet: then another is made.
    """
    for _ in range(_TRIES):
        path = Path(tempfile.mkdtemp(dir=home))
        with suppress(FileNotFoundError, BlockingIOError), ExitStack() as on_failure:
            lock = os.open(path, _FOLDER)
            on_failure.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.stat()  # it may have been removed before it was locked
            on_failure.pop_all()
            return path, lock
    raise OSError(errno.EBUSY, "other processes remove each new folder")


def _remove(path: Path, lock: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked child's end leaves the folder to its parent
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _sweep(home: Path) -> None:
    """Remove the folders whose processes are gone."""
    for path in home.iterdir():
        try:
            lock = os.open(path, _FOLDER)
        except OSError:  # gone meanwhile
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # in use
            pass
        finally:
            os.close(lock)
