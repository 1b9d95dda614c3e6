from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.mindir.paths import resolve_inside

pytestmark = pytest.mark.pure


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "w.bin").write_bytes(b"inside")
    (tmp_path / "secret.bin").write_bytes(b"outside")
    (tmp_path / "model-twin").mkdir()
    (tmp_path / "model-twin" / "w.bin").write_bytes(b"outside")
    return folder


@pytest.mark.parametrize(
    "location", ["data/w.bin", "./data/w.bin", "data/../data/w.bin", "data//w.bin"]
)
def test_inside(folder: Path, location: str) -> None:
    assert resolve_inside(str(folder), location, "m") == str(folder / "data" / "w.bin")


@pytest.mark.parametrize(
    "location",
    [
        "../secret.bin",
        "data/../../secret.bin",
        "..",
        "",
        "../model-twin/w.bin",
        "data/w.bin\0",
        "\0",
        "/etc/passwd",
    ],
)
def test_outside(folder: Path, location: str) -> None:
    with pytest.raises(
        ModelError, match="lies outside the model's folder .*: refused. Copy it into that folder.$"
    ):
        resolve_inside(str(folder), location, "m.onnx")


def test_absolute_even_if_inside(folder: Path) -> None:
    with pytest.raises(ModelError, match="lies outside"):
        resolve_inside(str(folder), str(folder / "data" / "w.bin"), "m")


def test_links(folder: Path) -> None:
    (folder / "escape.bin").symlink_to(folder.parent / "secret.bin")
    (folder / "up").symlink_to(folder.parent)
    (folder / "loop").symlink_to("loop")
    (folder / "alias.bin").symlink_to("data/w.bin")
    for location in ("escape.bin", "up/secret.bin"):
        with pytest.raises(ModelError, match="lies outside"):
            resolve_inside(str(folder), location, "m")
    with pytest.raises(ModelError, match="missing"):
        resolve_inside(str(folder), "loop", "m")
    assert resolve_inside(str(folder), "alias.bin", "m") == str(folder / "data" / "w.bin")


def test_a_folder_that_is_itself_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert resolve_inside(str(tmp_path / "link"), "data/w.bin", "m") == str(
        folder / "data" / "w.bin"
    )


@pytest.mark.parametrize("location", ["data/none.bin", "data", ".", "n" * 300])
def test_missing(folder: Path, location: str) -> None:
    with pytest.raises(ModelError, match="^initializer 'w' needs the data file .* missing"):
        resolve_inside(str(folder), location, "initializer 'w'")


@given(
    st.text(st.characters(codec="utf-8"), max_size=30)
    | st.lists(st.sampled_from(["..", ".", "a", "", "usr", "etc"]), max_size=8).map("/".join)
)
def test_whatever_it_says_nothing_outside_is_reached(location: str) -> None:
    try:
        found = resolve_inside("/usr/bin", location, "m")
    except ModelError:
        return
    assert found.startswith("/usr/bin/")
