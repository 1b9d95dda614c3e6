"""Folders of shards: whole or not at all."""

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.compiler.slicing.emission.folder import ShardFolder

pytestmark = pytest.mark.pure


def fill(folder, text, force=False, ranks=1):
    with ShardFolder(str(folder), "m", force) as made:
        for rank in range(ranks):
            (made.aside / f"m_rank{rank}.onnx").write_text(text)
        (made.aside / "plan.json").write_text(text)
        made.publish()


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_new_folder_appears_whole(tmp_path):
    fill(tmp_path / "shards", "new")
    assert contents(tmp_path / "shards") == {"m_rank0.onnx": "new", "plan.json": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_an_error_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), ShardFolder(str(tmp_path / "s"), "m", False) as made:
        (made.aside / "m_rank0.onnx").write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_other_shards_are_replaced_only_by_force(tmp_path):
    fill(tmp_path / "s", "old", ranks=3)
    (tmp_path / "s" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other shards .*--force"):
        fill(tmp_path / "s", "new")
    fill(tmp_path / "s", "new", force=True, ranks=2)
    assert contents(tmp_path / "s") == {
        "m_rank0.onnx": "new",
        "m_rank1.onnx": "new",
        "plan.json": "new",
        "notes.txt": "mine",
    }


def test_a_move_that_fails_brings_the_old_files_back(tmp_path):
    fill(tmp_path / "s", "old")
    (tmp_path / "s" / "other").mkdir()
    with pytest.raises(UsageError), ShardFolder(str(tmp_path / "s"), "m", True) as made:
        (made.aside / "m_rank0.onnx").write_text("new")
        (made.aside / "other").write_text("a folder of this name is there")
        made.publish()
    (tmp_path / "s" / "other").rmdir()
    assert contents(tmp_path / "s") == {"m_rank0.onnx": "old", "plan.json": "old"}


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".s.slicing-gone").mkdir()
    (tmp_path / ".s.slicing-gone" / "m_rank0.data").write_text("half")
    fill(tmp_path / "s", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(UsageError, match="is a file, expected a folder"):
        ShardFolder(str(tmp_path / "s"), "m", False)
