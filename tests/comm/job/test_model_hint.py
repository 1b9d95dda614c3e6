"""What is said to a MODEL that is no file: the pattern that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmesh.comm.errors import ModelError
from rankmesh.comm.job.shard import find_shards, pattern_of

pytestmark = pytest.mark.pure


def said(model: Path | str) -> str:
    with pytest.raises(ModelError) as caught:
        find_shards(str(model))
    return str(caught.value)


@pytest.mark.parametrize(
    "placeholder", ["*", "?", "[01]", "{ranke}", "{Rank}", "{}", "{rank_id}", "%d", "%02d", "<n>"]
)
def test_other_placeholders_get_use_rank(tmp_path: Path, placeholder: str) -> None:
    (tmp_path / "m0.mindir").touch()
    text = said(tmp_path / f"m{placeholder}.mindir")
    assert (
        "use {rank}" in text
        and f"instead of {placeholder}: '{tmp_path / 'm{rank}.mindir'}'" in text
    )


def test_a_file_that_has_such_a_name_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "m[1]{x}.mindir"
    path.touch()
    assert find_shards(str(path)).path(0) == str(path)


@pytest.mark.parametrize(
    "asked", ["lama.mindir", "llama_rnk{rank}.mindir", "llama_rank.mindr", "llama_rank1.mndir"]
)
def test_the_nearest_name_is_offered(tmp_path: Path, asked: str) -> None:
    for rank in (0, 1):
        (tmp_path / f"llama_rank{rank}.mindir").touch()
    (tmp_path / "bert.onnx").touch()
    assert said(tmp_path / asked).endswith(
        f"Did you mean '{tmp_path / 'llama_rank{rank}.mindir'}'?"
    )
    assert said(tmp_path / "brt.onnx").endswith(f"Did you mean '{tmp_path / 'bert.onnx'}'?")
    assert "Did you mean" not in said(tmp_path / "quite-another.onnx")


@pytest.mark.parametrize(
    ("files", "pattern"),
    [
        (["m0.mindir", "m1.mindir"], "m{rank}.mindir"),
        (["m1.mindir", "m0.mindir"], "m{rank}.mindir"),
        (["v2/r0_of_2.onnx", "v2/r1_of_2.onnx"], "v2/r{rank}_of_2.onnx"),
        ([f"m{n}" for n in range(12)], "m{rank}"),
        (["m1.onnx", "m2.onnx"], ""),
        (["a.onnx", "b.onnx"], ""),
        (["m0.onnx", "n1.onnx"], ""),
    ],
)
def test_the_pattern_of_some_files(files: list[str], pattern: str) -> None:
    assert pattern_of(files) == pattern
