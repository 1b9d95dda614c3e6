"""Steps of a path: those that the kernel takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankmesh.comm.host.own_folder import path_steps

pytestmark = pytest.mark.pure


def test_links_are_followed_as_the_kernel_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `..` behind a link, which leads to the parent of what the link leads to."""
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    (tmp_path / "short").symlink_to("a/deep")
    (tmp_path / "far").symlink_to(tmp_path / "short")
    monkeypatch.chdir(tmp_path)
    steps = list(path_steps("far/../file"))
    assert os.path.samestat(steps[-1].status, os.stat("far/../file"))
    passed = [
        (os.path.relpath(step.path, tmp_path), step.target)
        for step in steps
        if step.path.startswith(f"{tmp_path}/")
    ]
    assert passed == [
        ("far", str(tmp_path / "short")),
        ("short", "a/deep"),
        ("a", ""),
        ("a/deep", ""),
        ("a/file", ""),
    ]
    assert [step.path for step in steps[:2]] == ["/", "/" + tmp_path.parts[1]]


def test_links_that_never_end_and_files_that_are_missing_are_errors(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="[Ss]ymbolic links"):
        list(path_steps(str(tmp_path / "loop")))
    with pytest.raises(FileNotFoundError):
        list(path_steps(str(tmp_path / "missing")))
