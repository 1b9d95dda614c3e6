"""The cache folder: whole entries or none, whatever its users do to it and to each other."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.processes.sliced_model import SliceAnswer, SlicedModel
from rankmesh.worker.cache.store import CacheStore

_LIMIT = 1 << 20


def _add(store: CacheStore, key: str, content: bytes = b"packed") -> bool:
    return store.add(
        key, f"{key}.mindir", lambda folder: (folder / "weights").write_bytes(content) and None
    )


def test_an_entry_is_found_with_its_files(tmp_path: Path) -> None:
    store = CacheStore(tmp_path / "cache", _LIMIT)
    assert store.find("a") is None
    assert _add(store, "a")
    found = store.find("a")
    assert found is not None
    assert (found / "weights").read_bytes() == b"packed"
    assert [(e.manifest.source, e.manifest.size) for e in store.entries()] == [("a.mindir", 6)]


def test_an_entry_is_written_once(tmp_path: Path) -> None:
    store = CacheStore(tmp_path, _LIMIT)
    assert _add(store, "a", b"first")
    assert not _add(store, "a", b"second")
    assert (tmp_path / "entries" / "a" / "weights").read_bytes() == b"first"


@pytest.mark.parametrize("damage", ["truncate", "remove", "manifest", "no manifest"])
def test_a_damaged_entry_is_not_found_and_written_anew(tmp_path: Path, damage: str) -> None:
    store = CacheStore(tmp_path, _LIMIT)
    _add(store, "a")
    folder = tmp_path / "entries" / "a"
    if damage == "truncate":
        os.truncate(folder / "weights", 3)
    elif damage == "remove":
        (folder / "weights").unlink()
    elif damage == "manifest":
        (folder / "manifest.json").write_bytes(b'{"source":')
    else:
        (folder / "manifest.json").unlink()
    assert store.find("a") is None
    assert store.entries() == []
    assert _add(store, "a", b"anew")
    found = store.find("a")
    assert found is not None
    assert (found / "weights").read_bytes() == b"anew"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entries", "identities"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    store = CacheStore(tmp_path, _LIMIT)

    def fail(folder: Path) -> None:
        (folder / "half").write_bytes(b"x")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        store.add("a", "a.mindir", fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entries", "identities"]
    assert _add(store, "a")


def test_the_entries_unused_for_longest_go_first(tmp_path: Path) -> None:
    store = CacheStore(tmp_path, 25)
    for age, key in enumerate(("old", "older")):
        _add(store, key, bytes(10))
        os.utime(tmp_path / "entries" / key / "manifest.json", (1000 - age, 1000 - age))
    store.find("older")  # which makes it the younger one
    _add(store, "new", bytes(10))
    assert {entry.path.name for entry in store.entries()} == {"older", "new"}


def test_shards_in_use_are_neither_evicted_nor_cleared(tmp_path: Path) -> None:
    store = CacheStore(tmp_path, 25)
    _add(store, "shards", bytes(10))
    used = SlicedModel(SliceAnswer(folder=str(store.find("shards"))))
    os.utime(tmp_path / "entries" / "shards" / "manifest.json", (1000, 1000))
    for key in ("a", "b"):
        _add(store, key, bytes(10))
    assert {entry.path.name for entry in store.entries()} == {"a", "b", "shards"}
    assert store.clear() == 2
    assert [entry.path.name for entry in store.entries()] == ["shards"]
    used.close()
    assert store.clear() == 1


def test_an_entry_above_the_limit_is_not_kept(tmp_path: Path) -> None:
    store = CacheStore(tmp_path, 7)
    assert _add(store, "kept", bytes(7))
    with pytest.raises(
        OSError, match="it takes 1 MiB, and the cache has 0 MiB at most .RANKMESH_CACHE_SIZE."
    ):
        _add(store, "a", bytes(8))
    assert store.find("a") is None
    assert store.find("kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entries", "identities"]


def test_a_folder_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert CacheStore("~/cache", _LIMIT).folder == tmp_path / "cache"


def test_clear_frees_everything_but_what_is_mapped(tmp_path: Path) -> None:
    store = CacheStore(tmp_path, _LIMIT)
    _add(store, "a")
    found = store.find("a")
    assert found is not None
    with open(found / "weights", "rb") as held:
        assert store.clear() == 1
        assert held.read() == b"packed"
    assert store.entries() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entries", "identities"]


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    os.chmod(tmp_path / "cache", 0o777)
    with pytest.raises(
        UsageError, match="no other user may write into it; it has owner .* mode 777"
    ):
        CacheStore(tmp_path / "cache", _LIMIT)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be made: .*RANKMESH_CACHE"):
        CacheStore(tmp_path / "file", _LIMIT)


def test_a_killed_writer_blocks_nobody(tmp_path: Path) -> None:
    """While a writer lives others leave the entry to it; once it is dead the next one writes it."""
    store = CacheStore(tmp_path, _LIMIT)
    started = multiprocessing.get_context("fork").Event()

    def hang(folder: Path) -> None:
        (folder / "half").write_bytes(b"x")
        started.set()
        signal.pause()

    writer = multiprocessing.get_context("fork").Process(
        target=store.add, args=("a", "a.mindir", hang)
    )
    writer.start()
    assert started.wait(30)
    assert not _add(store, "a")
    assert store.find("a") is None
    writer.kill()
    writer.join()
    assert _add(store, "a")
    found = store.find("a")
    assert found is not None
    assert sorted(path.name for path in found.iterdir()) == ["manifest.json", "weights"]


def test_of_several_writers_at_once_one_writes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(4), context.SimpleQueue()

    def write() -> None:
        barrier.wait(30)
        answers.put(_add(CacheStore(tmp_path, _LIMIT), "a"))

    writers = [context.Process(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    written = [answers.get() for _ in writers]
    for writer in writers:
        writer.join()
    assert written.count(True) == 1
    assert CacheStore(tmp_path, _LIMIT).find("a") is not None


def test_writers_of_other_entries_all_write(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def write(name: str) -> None:
        store = CacheStore(tmp_path, _LIMIT)
        answers.put(sum(_add(store, f"{name}{number}", b"") for number in range(30)))

    writers = [context.Process(target=write, args=name) for name in "abcd"]
    for writer in writers:
        writer.start()
    written = [answers.get() for _ in writers]
    for writer in writers:
        writer.join()
    assert written == [30] * 4
