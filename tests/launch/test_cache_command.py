"""`rankmesh cache`: what it lists, and that it empties the cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rankmesh.launch.cache_command import app
from rankmesh.worker.cache.store import Store

_SOURCE = "/models/" + "long_" * 20 + "name.mindir"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RANKMESH_CACHE_SIZE", "5")
    kept = Store(tmp_path / "cache", 5 << 20)
    kept.add("0123456789abcdef", _SOURCE, lambda folder: (folder / "weights").write_bytes(bytes(1 << 20)) and None)
    return kept


def test_the_list_has_whole_names_however_narrow_it_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    printed = CliRunner().invoke(app, ["list"]).stdout
    model = "".join(line.split("│")[1].strip() for line in printed.splitlines() if line.count("│") == 5)
    assert model == _SOURCE
    assert f"{store.folder}: 1 entries, 1.0 MiB of at most 5" in printed


def test_verify_removes_what_is_damaged(store: Store) -> None:
    whole = CliRunner().invoke(app, ["verify"])
    assert (whole.exit_code, whole.stdout) == (0, f"{store.folder}: checked 1 entries, 0 damaged\n")
    (entry,) = store.entries()
    (entry.path / "weights").write_bytes(bytes((1 << 20) - 1) + b"\x01")
    found = CliRunner().invoke(app, ["verify"])
    assert found.exit_code == 1
    assert found.stdout == (f"{entry.path}: weights is not what was written for {_SOURCE}: removed\n"
                            f"{store.folder}: checked 1 entries, 1 damaged\n")
    assert store.entries() == []


def test_clear_says_how_many_it_removed(store: Store) -> None:
    assert CliRunner().invoke(app, ["clear"]).stdout == f"{store.folder}: removed 1 entries\n"
    assert store.entries() == []


def test_a_size_that_is_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMESH_CACHE_SIZE", "1e3")
    error = CliRunner().invoke(app, ["list"]).exception
    assert "RANKMESH_CACHE_SIZE is the size of the model cache in MiB, a whole number above 0; got '1e3'" in str(error)
    assert store.entries()
