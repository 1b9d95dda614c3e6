"""Entries that changed without changing their size: noticed on demand, and behind whoever loads
them.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from rankmesh.worker.cache import manifest, verification
from rankmesh.worker.cache.manifest import FileContent
from rankmesh.worker.cache.store import CacheStore
from rankmesh.worker.cache.verification import verify, verify_behind

pytestmark = pytest.mark.pure

_LIMIT = 1 << 30
_BYTES = bytes(range(256)) * 40


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheStore:
    monkeypatch.setattr(verification, "VERIFICATION_DELAY", 0.0)
    monkeypatch.setattr(verification, "VERIFICATION_PAUSE", 0.0)
    made = CacheStore(tmp_path / "cache", _LIMIT)
    made.add("a", "a.mindir", lambda folder: (folder / "weights").write_bytes(_BYTES) and None)
    return made


def entry(store: CacheStore) -> Path:
    (path,) = store.paths()
    return path


def flip(path: Path, at: int = 5000) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << 3
    path.write_bytes(content)


def check(store: CacheStore) -> None:
    """verify_behind, until its thread has ended."""
    verify_behind(store, entry(store), "the model")
    for thread in threading.enumerate():
        if thread.name == "rankmesh-cache-check":
            thread.join()


@pytest.mark.parametrize("at", [0, 5000, len(_BYTES) - 1])
def test_a_flipped_bit_is_found_on_demand(store: CacheStore, at: int) -> None:
    assert [(found.source, found.damaged) for found in verify(store)] == [("a.mindir", "")]
    flip(entry(store) / "weights", at)
    assert store.find("a")  # its size is right
    assert [(found.source, found.damaged) for found in verify(store)] == [("a.mindir", "weights")]
    assert store.paths() == []


def test_an_incomplete_entry_is_removed_on_demand(store: CacheStore) -> None:
    os.truncate(entry(store) / "weights", 10)
    assert [(found.source, found.damaged) for found in verify(store)] == [("", "manifest or size")]
    assert store.paths() == []


def test_a_flipped_bit_is_found_behind_the_model(
    store: CacheStore, caplog: pytest.LogCaptureFixture
) -> None:
    flip(entry(store) / "weights")
    check(store)
    assert "the model: weights in its entry of the model cache" in caplog.text
    assert store.paths() == []


def test_one_check_a_day(store: CacheStore, caplog: pytest.LogCaptureFixture) -> None:
    """A check holds for all who load the entry, until it is a day old."""
    check(store)
    flip(entry(store) / "weights")
    check(store)
    assert store.find("a")
    yesterday = time.time() - 25 * 3600
    os.utime(entry(store) / "checked", (yesterday, yesterday))
    check(store)
    assert store.paths() == []
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_two_processes_do_not_check_at_once(store: CacheStore) -> None:
    flip(entry(store) / "weights")
    stamp = entry(store) / "checked"
    stamp.touch()
    os.utime(stamp, (0, 0))
    with open(stamp, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        check(store)
        assert store.find("a")
    check(store)
    assert store.paths() == []


def test_an_entry_that_goes_meanwhile_is_no_damage(
    store: CacheStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed, or replaced by another one under the same name, while it is read."""
    read, path = FileContent.of, entry(store)

    def replace(file: Path, pause: float = 0.0) -> FileContent:
        shutil.rmtree(path)
        store.add(
            "a", "a.mindir", lambda folder: (folder / "weights").write_bytes(_BYTES[::-1]) and None
        )
        return read(file, pause)

    monkeypatch.setattr(verification.FileContent, "of", replace)
    monkeypatch.setattr(
        manifest.Manifest,
        "of",
        classmethod(lambda cls, source, folder: cls(source, {"weights": read(folder / "weights")})),
    )
    check(store)
    assert store.find("a")
    assert not caplog.records


def test_a_removed_entry_is_checked_quietly(
    store: CacheStore, caplog: pytest.LogCaptureFixture
) -> None:
    path = entry(store)
    store.clear()
    verify_behind(store, path, "the model")
    for thread in threading.enumerate():
        if thread.name == "rankmesh-cache-check":
            thread.join()
    assert not caplog.records
    assert not path.exists()
