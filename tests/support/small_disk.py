"""Small disks: file systems in memory with little room; tests are skipped where none is mounted."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int = 64 << 10) -> Iterator[Path]:
    """A file system of so many bytes."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all room of a disk."""
    path = disk / "filler"
    try:
        path.write_bytes(bytes(1 << 20))
    except OSError:
        return path
    raise AssertionError(f"{disk} is no small disk")
