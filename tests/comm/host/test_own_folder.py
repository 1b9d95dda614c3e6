"""Folders of the user alone: what is made, and what is refused because others could put a folder in
its place.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.host.own_folder import make_own_folder

pytestmark = pytest.mark.pure

_STRANGER = 4321
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")


def make(path: Path) -> None:
    make_own_folder(str(path), "the cache", "Name another.")


def test_a_folder_is_made_for_the_user_alone_with_those_around_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    make(tmp_path / "a" / "b")


@pytest.mark.parametrize("mode", [0o777, 0o757])
@pytest.mark.parametrize("there", [False, True])
def test_a_parent_that_others_may_write_is_refused(tmp_path: Path, mode: int, there: bool) -> None:
    """However deep the folder is below it, and nothing is made there."""
    (tmp_path / "open").mkdir()
    if there:
        make(tmp_path / "open" / "mine" / "cache")
    (tmp_path / "open").chmod(mode)
    with pytest.raises(
        UsageError,
        match=rf"^the cache .*/open/mine/cache is refused: others than user \d+ may replace "
        rf"what is in .*/open \(owner \d+, mode {mode:o}\), which leads to it\. Name",
    ):
        make(tmp_path / "open" / "mine" / "cache")
    assert (tmp_path / "open" / "mine").exists() is there


def test_a_sticky_parent_will_do(tmp_path: Path) -> None:
    """As /tmp: what is the user's own there nobody else can rename."""
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    make(tmp_path / "sticky" / "cache")


def test_a_link_counts_with_the_way_to_it_and_the_way_that_it_leads(tmp_path: Path) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
    (tmp_path / "closed" / "link").symlink_to(tmp_path / "open")
    (tmp_path / "open" / "link").symlink_to(tmp_path / "closed")
    make(tmp_path / "closed" / "link" / "cache")
    (tmp_path / "open").chmod(0o777)
    for path in (tmp_path / "closed" / "link" / "cache", tmp_path / "open" / "link" / "cache"):
        with pytest.raises(UsageError, match=r"may replace what is in .*/open \("):
            make(path)


@as_root
@pytest.mark.parametrize("what", ["parent", "link", "folder"])
def test_what_is_another_users_is_refused(tmp_path: Path, what: str) -> None:
    """A link even where its folder is sticky: its owner may let it lead elsewhere."""
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "folder").mkdir()
    (tmp_path / "parent").chmod(0o1777)
    (tmp_path / "parent" / "link").symlink_to(tmp_path)
    os.chown(
        tmp_path / "parent" / what if what != "parent" else tmp_path / "parent",
        _STRANGER,
        -1,
        follow_symlinks=False,
    )
    path = tmp_path / "parent" / ("link/cache" if what == "link" else "folder")
    with pytest.raises(
        UsageError,
        match=r"must belong to user \d+" if what == "folder" else f"what is in .*/{what} ",
    ):
        make(path)


@as_root
def test_a_parent_that_a_group_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    os.chown(tmp_path / "shared", -1, _STRANGER)
    (tmp_path / "shared").chmod(0o775)
    with pytest.raises(
        UsageError, match=r"may replace what is in .*/shared \(owner \d+, mode 775\)"
    ):
        make(tmp_path / "shared" / "cache")


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(
        UsageError,
        match=r"the cache .*/cache must belong to user \d+, and no other user may write into "
        r"it; it has owner \d+, mode 777\. Name another\.",
    ):
        make(tmp_path / "cache")


@pytest.mark.parametrize("kind", ["file", "link to nothing", "in a file"])
def test_what_is_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "place"
    if kind == "link to nothing":
        path.symlink_to(tmp_path / "nothing")
    else:
        path.touch()
    with pytest.raises(UsageError, match=r"^the cache .* cannot be made: .*\. Name another\.$"):
        make(path / "cache" if kind == "in a file" else path)
