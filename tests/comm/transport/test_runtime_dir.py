from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.transport.local_socket import runtime_dir

pytestmark = pytest.mark.pure

NAME = f"rankmesh-{os.getuid()}"


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="rm") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)


def test_folder_is_made_for_its_user_alone(base: Path) -> None:
    assert runtime_dir() == str(base / NAME)
    assert stat.S_IMODE((base / NAME).stat().st_mode) == 0o700
    assert runtime_dir() == str(base / NAME)


def test_without_a_runtime_folder_the_temporary_one_is_used(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(base))
    for xdg in ("", "/nonexistent"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", xdg)
        assert runtime_dir() == str(base / NAME)


def test_folder_that_others_may_enter_is_refused(base: Path) -> None:
    (base / NAME).mkdir()
    (base / NAME).chmod(0o750)
    with pytest.raises(UsageError, match="no other user may enter .*mode 750"):
        runtime_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_folder_of_somebody_else_is_refused(base: Path) -> None:
    (base / NAME).mkdir(0o700)
    os.chown(base / NAME, 4321, -1)
    with pytest.raises(UsageError, match="has owner 4321"):
        runtime_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_base_of_another_user_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could put another folder in our folder's place at any time."""
    theirs = base / "theirs"
    theirs.mkdir(0o777)
    mine = theirs / "mine"
    mine.mkdir(0o700)
    os.chown(theirs, 4321, -1)
    for path in (theirs, mine):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
        with pytest.raises(
            UsageError, match=f"user 4321, who owns {theirs}, may put another folder in its place"
        ):
            runtime_dir()
    link = base / "link"
    link.symlink_to(base)
    os.lchown(link, 4321, -1)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(link))
    with pytest.raises(UsageError, match=f"user 4321, who owns {link}"):
        runtime_dir()


def test_temporary_folder_of_all_users_is_taken(base: Path) -> None:
    base.chmod(0o1777)
    assert runtime_dir() == str(base / NAME)


def test_link_and_file_are_refused(base: Path) -> None:
    (base / "mine").mkdir(0o700)
    (base / NAME).symlink_to(base / "mine")
    with pytest.raises(UsageError, match="must be a folder"):
        runtime_dir()
    (base / NAME).unlink()
    (base / NAME).touch()
    with pytest.raises(UsageError, match="must be a folder"):
        runtime_dir()


def test_path_too_long_for_sockets_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = base / ("x" * 60)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with pytest.raises(UsageError, match="too long for sockets"):
        runtime_dir()
