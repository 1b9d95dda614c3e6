"""`rankmesh cache`: what it lists, and that it empties the cache."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from namespaces import mounted, require_namespaces
from processes import COMMAND, PATIENCE
from typer.testing import CliRunner

from rankmesh.comm.errors import UsageError
from rankmesh.comm.processes.sliced_model import hold
from rankmesh.launch.commands.cache import app
from rankmesh.worker.cache.store import CacheStore

_SOURCE = "/models/" + "long_" * 20 + "name.mindir"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheStore:
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RANKMESH_CACHE_SIZE", "5")
    kept = CacheStore(tmp_path / "cache", 5 << 20)
    kept.add(
        "0123456789abcdef",
        _SOURCE,
        lambda folder: (folder / "weights").write_bytes(bytes(1 << 20)) and None,
    )
    return kept


def test_the_list_has_whole_names_however_narrow_it_is(
    store: CacheStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    printed = CliRunner().invoke(app, ["list"]).stdout
    model = "".join(
        line.split("│")[1].strip() for line in printed.splitlines() if line.count("│") == 5
    )
    assert model == _SOURCE
    assert f"{store.folder}: 1 entry, 1.0 MiB of at most 5" in printed


def test_verify_removes_what_is_damaged(store: CacheStore) -> None:
    whole = CliRunner().invoke(app, ["verify"])
    assert (whole.exit_code, whole.stdout) == (0, f"{store.folder}: checked 1 entry, 0 damaged\n")
    (entry,) = store.entries()
    (entry.path / "weights").write_bytes(bytes((1 << 20) - 1) + b"\x01")
    found = CliRunner().invoke(app, ["verify"])
    assert found.exit_code == 1
    assert found.stdout == (
        f"{entry.path}: weights is not what was written for {_SOURCE}: removed\n"
        f"{store.folder}: checked 1 entry, 1 damaged\n"
    )
    assert store.entries() == []


def add(store: CacheStore, key: str, source: Path) -> None:
    store.add(
        key, str(source), lambda folder: (folder / "weights").write_bytes(bytes(1 << 19)) and None
    )


def test_clear_says_how_many_it_removed(store: CacheStore) -> None:
    assert (
        CliRunner().invoke(app, ["clear", "--yes"]).stdout
        == f"{store.folder}: removed 1 entry, 1.0 MiB\n"
    )
    assert store.entries() == []
    assert (
        CliRunner().invoke(app, ["clear"]).stdout == f"{store.folder}: removed 0 entries, 0.0 MiB\n"
    )


def test_clear_keeps_slices_that_a_job_uses(store: CacheStore, tmp_path: Path) -> None:
    add(store, "used", tmp_path / "m.onnx")
    lock = hold(str(store.find("used")))
    said = CliRunner().invoke(app, ["clear", "--yes"]).stdout
    assert said == (
        f"{store.folder}: removed 1 entry, 1.0 MiB; kept 1 entry, 0.5 MiB, which jobs use\n"
    )
    assert [entry.path.name for entry in store.entries()] == ["used"]
    os.close(lock)
    assert CliRunner().invoke(app, ["clear", str(tmp_path / "m.onnx"), "--yes"]).exit_code == 0
    assert store.entries() == []


def test_clear_removes_nothing_unasked(store: CacheStore) -> None:
    error = CliRunner().invoke(app, ["clear"]).exception
    assert isinstance(
        error, UsageError
    ) and "remove 1 entry, 1.0 MiB? There is no terminal to ask at" in str(error)
    assert store.entries()


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_clear_asks_at_a_terminal(store: CacheStore, answer: bytes, left: int) -> None:
    screen, terminal = pty.openpty()
    os.write(screen, answer)
    done = subprocess.run(
        [*COMMAND, "cache", "clear"],
        stdin=terminal,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    os.close(screen)
    os.close(terminal)
    assert "remove 1 entry, 1.0 MiB? [y/N]" in done.stdout and done.returncode == left, done.stderr
    assert len(store.entries()) == left


def test_dry_run_lists_and_removes_nothing(store: CacheStore) -> None:
    done = CliRunner().invoke(app, ["clear", "--dry-run"])
    assert (
        done.stdout
        == f"{_SOURCE}  (0123456789ab, 1.0 MiB)\n{store.folder}: would remove 1 entry, 1.0 MiB\n"
    )
    assert store.entries()


@pytest.mark.parametrize(
    ("model", "removed"),
    [
        ("m{rank}.mindir", {"m0", "m1"}),
        ("m.mindir", {"m0", "m1"}),
        ("m1.mindir", {"m1"}),
        ("other.mindir", {"other"}),
        ("gone{rank}.mindir", {"gone0"}),
        ("none.mindir", set()),
    ],
)
def test_clear_of_one_model(
    store: CacheStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    removed: set[str],
) -> None:
    """By pattern, by the name that stands for all shards, by file; also where the files are
    gone."""
    monkeypatch.chdir(tmp_path)
    for name in ("m0", "m1", "other", "gone0"):
        add(store, name * 8, tmp_path / f"{name}.mindir")
        if name != "gone0":
            (tmp_path / f"{name}.mindir").touch()
    before = {Path(entry.manifest.source).stem for entry in store.entries()}
    assert CliRunner().invoke(app, ["clear", model, "--yes"]).exit_code == 0
    assert before - {Path(entry.manifest.source).stem for entry in store.entries()} == removed


def test_clear_of_a_model_of_which_nothing_is_kept(
    store: CacheStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["clear", "none.mindir"])
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{store.folder}: nothing is kept of {tmp_path}/none.mindir; ")
    assert "nothing is kept" in CliRunner().invoke(app, ["clear", "none{rank}.mindir"]).stdout
    for wrong in ("m*.mindir", "m{ranke}.mindir"):
        error = CliRunner().invoke(app, ["clear", wrong, "--dry-run"]).exception
        assert (
            isinstance(error, UsageError)
            and "use {rank}" in str(error)
            and "'m{rank}.mindir'" in str(error)
        )


def test_a_size_that_is_none(store: CacheStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMESH_CACHE_SIZE", "1e3")
    error = CliRunner().invoke(app, ["list"]).exception
    assert (
        "RANKMESH_CACHE_SIZE is the size of the model cache in MiB, a whole number above 0; got "
        "'1e3'"
    ) in str(error)
    assert store.entries()


def test_a_cache_that_may_only_be_read_is_checked_and_not_emptied(store: CacheStore) -> None:
    require_namespaces()
    store.add(
        "fedcba9876543210",
        "/models/other.onnx",
        lambda folder: (folder / "weights").write_bytes(b"1") and None,
    )
    (store.folder / "entries" / "fedcba9876543210" / "weights").write_bytes(b"2")

    def cache(*arguments: str) -> subprocess.CompletedProcess[str]:
        mounts = [
            f"mount --bind '{store.folder}' '{store.folder}'",
            f"mount -o remount,ro,bind '{store.folder}'",
        ]
        return subprocess.run(
            mounted(mounts, [*COMMAND, "cache", *arguments]),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    checked = cache("verify")
    assert (checked.returncode, checked.stderr) == (1, "")
    assert (
        f"for /models/other.onnx: not removed, as {store.folder} may only be read\n"
        in checked.stdout
    )
    assert checked.stdout.endswith("checked 2 entries, 1 damaged\n")
    emptied = cache("clear", "--yes")
    assert emptied.returncode == 2
    assert emptied.stderr == f"rankmesh: {store.folder} may only be read: nothing can be removed.\n"
    assert len(store.paths()) == 2
