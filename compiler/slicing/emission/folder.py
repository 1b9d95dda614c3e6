"""The folder of shards: it is filled aside, and takes its name when it is whole."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from ....comm.errors import UsageError
from ....comm.serving.weight_slices import WEIGHTS

PLAN = "plan.json"
REPORT = "report.txt"


class ShardFolder:
    """A context in which files are written into `aside`; `publish` gives them their place.

    Files that were not published are removed at the end. Folders that killed processes left are
    removed by the next slicing into the same place.
    """

    def __init__(self, folder: str, stem: str, force: bool) -> None:
        """UsageError where the folder holds other shards, unless `force`."""
        self._folder = Path(os.path.abspath(folder))
        self._stem = stem
        self._force = force
        self.check()

    def check(self) -> None:
        """Raise UsageError where the folder cannot take the shards."""
        if self._folder.exists() and not self._folder.is_dir():
            raise UsageError(f"{self._folder}: is a file, expected a folder for the shards.")
        old = sorted(path.name for path in self._old())
        if old and not self._force:
            raise UsageError(
                f"{self._folder}: holds other shards ({', '.join(old[:3])}). Name another folder, "
                "or replace them with --force (force=True)."
            )

    def _old(self) -> Iterator[Path]:
        """The files of an earlier slicing of a model of this name, and any plan."""
        own = re.compile(rf"{re.escape(self._stem)}_rank\d+\.(onnx|data)")
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name in (PLAN, REPORT, WEIGHTS) or own.fullmatch(path.name):
                    yield path

    def __enter__(self) -> ShardFolder:
        parent = self._folder.parent
        prefix = f".{self._folder.name}.slicing-"
        self.aside = parent / f"{prefix}{secrets.token_hex(4)}"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            sweep(parent, prefix)
            self.aside.mkdir(mode=0o700)
            self._lock = os.open(self.aside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{parent}: cannot be written: {error.strerror}.") from error
        except BaseException:  # a signal, before there is a context to leave
            shutil.rmtree(self.aside, ignore_errors=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.aside, ignore_errors=True)
        os.close(self._lock)
        if isinstance(error, OSError) and error.strerror:
            raise UsageError(f"{self._folder}: cannot be written: {error.strerror}.") from error

    def publish(self) -> None:
        """Move all files into place: the whole folder where there is none, else one by one.

        Files of an earlier slicing are removed. Where a file cannot be moved, all is as before.
        """
        self.check()
        _sync(self.aside)
        os.chmod(self.aside, 0o777 & ~_umask())
        if not self._folder.exists():
            os.rename(self.aside, self._folder)
        else:
            self._replace()
        _sync(self._folder.parent)

    def _replace(self) -> None:
        new = sorted(self.aside.iterdir())
        kept = self.aside / "replaced"
        kept.mkdir()
        moved: list[tuple[Path, Path]] = []
        try:
            for path in list(self._old()):
                moved.append((path, kept / path.name))
                os.rename(*moved[-1])
            for path in new:
                moved.append((path, self._folder / path.name))
                os.rename(*moved[-1])
        except BaseException:
            for before, after in reversed(moved):
                if not before.exists():
                    os.rename(after, before)
            raise
        _sync(self._folder)


def sweep(parent: Path, prefix: str) -> None:
    """Remove folders whose processes are gone."""
    for path in parent.glob(f"{prefix}*"):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # another slicing is under way
            pass
        finally:
            os.close(lock)


def _umask() -> int:
    old = os.umask(0o022)
    os.umask(old)
    return old


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
