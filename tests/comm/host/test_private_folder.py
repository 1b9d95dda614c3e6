"""Folders of one process: where they are made, and where they are refused."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.host.private_folder import PrivateFolder

pytestmark = pytest.mark.pure


def test_a_private_folder_is_made_where_others_can_replace_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in it is executed, as what lies in the model cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder = PrivateFolder("kind")
    assert folder.path.parent == tmp_path / "home" / "rankmesh" / "kind"
    folder.close()
    (tmp_path / "home").chmod(0o777)
    with pytest.raises(
        UsageError,
        match=rf"the folder .*/kind is refused: others than user {os.getuid()} may replace "
        rf"what is in .*/home \(.*Set XDG_CACHE_HOME to a folder of yours\.",
    ):
        PrivateFolder("kind")


def test_without_a_home_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        "os.path.expanduser", lambda path: path
    )  # as where there is no such account
    with pytest.raises(
        UsageError, match="has no home folder: HOME is not set, and there is no such account"
    ):
        PrivateFolder("kind")


def test_folders_that_are_made_at_once_are_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one that is made sweeps the others, which may not be locked yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def make(_: int) -> None:
        for _ in range(100):
            folder = PrivateFolder("kind")
            (folder.path / "file").write_text("there")
            assert (folder.path / "file").read_text() == "there"
            folder.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make, range(4)))
    assert list((tmp_path / "rankmesh" / "kind").iterdir()) == []
