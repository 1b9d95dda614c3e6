from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hostile import special_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankmesh.comm.errors import ModelError
from rankmesh.comm.job.shard import Shards, find_shards

pytestmark = pytest.mark.pure


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def names(shards: Shards, folder: Path) -> list[str]:
    return [str(Path(shards.path(rank)).relative_to(folder)) for rank in range(shards.count)]


@pytest.mark.parametrize(
    ("model", "files", "expected"),
    [
        ("m.mindir", ["m.mindir"], ["m.mindir"]),
        ("m.onnx", ["m.onnx", "m0.onnx", "m1.onnx"], ["m.onnx"]),
        ("m.mindir", ["m_graph.mindir"], ["m_graph.mindir"]),
        (
            "Matmul.mindir",
            ["Matmul0.mindir", "Matmul1.mindir"],
            ["Matmul0.mindir", "Matmul1.mindir"],
        ),
        (
            "m.mindir",
            ["m0_graph.mindir", "m1_graph.mindir"],
            ["m0_graph.mindir", "m1_graph.mindir"],
        ),
        ("m.mindir", ["m_graph.mindir", "m0.mindir"], ["m_graph.mindir"]),
        (
            "m_{rank}.mindir",
            ["m_0.mindir", "m_1.mindir", "m_x.mindir", "m_.mindir"],
            ["m_0.mindir", "m_1.mindir"],
        ),
        ("m_{rank}.mindir", ["m_0_graph.mindir", "m_1.mindir"], ["m_0_graph.mindir", "m_1.mindir"]),
        (
            "r_{rank}/m.mindir",
            ["r_0/m.mindir", "r_1/m.mindir", "r_2/other"],
            ["r_0/m.mindir", "r_1/m.mindir"],
        ),
        (
            "r{rank}/m_{rank}.onnx",
            ["r0/m_0.onnx", "r1/m_1.onnx", "r1/m_2.onnx"],
            ["r0/m_0.onnx", "r1/m_1.onnx"],
        ),
        ("{rank}.onnx", [f"{n}.onnx" for n in range(11)], [f"{n}.onnx" for n in range(11)]),
        (
            "m[1]*?.onnx",
            ["m[1]*?0.onnx", "m[1]*?1.onnx", "m1xx2.onnx"],
            ["m[1]*?0.onnx", "m[1]*?1.onnx"],
        ),
        ("m.[o]", ["m0.[o]", "m1.[o]", "m2.o"], ["m0.[o]", "m1.[o]"]),
        ("m+(a).b{rank}.onnx", ["m+(a).b0.onnx", "mm(a).b1.onnx"], ["m+(a).b0.onnx"]),
        ("a.b/m.onnx", ["a.b/m0.onnx"], ["a.b/m0.onnx"]),
    ],
)
def test_which_file_is_whose(
    tmp_path: Path, model: str, files: Sequence[str], expected: list[str]
) -> None:
    touch(tmp_path, *files)
    shards = find_shards(str(tmp_path / model))
    assert names(shards, tmp_path) == expected
    shards.require(shards.count)


@pytest.mark.parametrize(
    ("model", "files", "phrases"),
    [
        (
            "m.mindir",
            [],
            ["m.mindir: no such file", "m_graph.mindir", "m0.mindir", "model_{rank}.mindir"],
        ),
        ("m.mindir", ["m01.mindir", "m1x.mindir"], ["m.mindir: no such file"]),
        ("m", ["m0.mindir"], ["m: no such file"]),
        ("m_{rank}.mindir", ["m_x.mindir"], ["no file matches", "m_0.mindir", "m_1.mindir"]),
        (
            "m.mindir",
            ["m0.mindir", "m2.mindir", "m3.mindir"],
            ["m1.mindir: is missing", "[0, 2, 3]"],
        ),
        ("m{rank}.mindir", ["m1.mindir", "m2.mindir"], ["m0.mindir: is missing"]),
        ("r{rank}/m_{rank}.onnx", ["r0/m_1.onnx"], ["no file matches"]),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, model: str, files: Sequence[str], phrases: Sequence[str]
) -> None:
    touch(tmp_path, *files)
    with pytest.raises(ModelError) as caught:
        find_shards(str(tmp_path / model))
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.mindir").mkdir()
    with pytest.raises(ModelError, match=r"m\.mindir: is a folder, .* Name a file in it"):
        find_shards(str(tmp_path / "m.mindir"))


def test_more_ranks_than_files(tmp_path: Path) -> None:
    touch(tmp_path, "m0.onnx", "m1.onnx")
    shards = find_shards(str(tmp_path / "m.onnx"))
    with pytest.raises(
        ModelError, match=r"m2\.onnx: no such file, needed by one of 4 ranks. .* names 2 files: "
    ):
        shards.require(4)
    shards.require(1)


def test_one_file_serves_any_number_of_ranks(tmp_path: Path) -> None:
    touch(tmp_path, "m.onnx")
    shards = find_shards(str(tmp_path / "m.onnx"))
    shards.require(64)
    assert shards.path(63) == str(tmp_path / "m.onnx")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(
    stem=st.text(
        st.characters(codec="utf-8", exclude_characters="/\0{}", exclude_categories=["Nd", "Cs"]),
        min_size=1,
        max_size=12,
    ).filter(lambda s: s.strip(".")),
    suffix=st.sampled_from([".mindir", ".onnx", "", ".[x]"]),
    count=st.integers(1, 12),
)
def test_numbered_files_of_any_name_are_found(
    tmp_path_factory, stem: str, suffix: str, count: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    files = [f"{stem}{n}{suffix}" for n in range(count)]
    touch(folder, *files)
    assert names(find_shards(str(folder / f"{stem}{{rank}}{suffix}")), folder) == files


def test_bytes_count_what_lies_beside_the_shards(tmp_path: Path):
    for name, size in {
        "m_rank0.onnx": 1,
        "m_rank0.data": 10,
        "m_rank1_graph.mindir": 100,
        "other.data": 5000,
    }.items():
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "m_rank1_variables").mkdir()
    (tmp_path / "m_rank1_variables" / "data_0").write_bytes(b"x" * 1000)
    assert Shards(str(tmp_path / "m_rank{rank}.onnx"), 1).bytes == 11
    assert Shards(str(tmp_path / "m_rank1_graph.mindir"), 1).bytes == 1100


@pytest.mark.parametrize("kind", ["pipe", "socket", "endless"])
def test_what_is_no_regular_file_is_no_model(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ModelError, match="special: is no regular file, expected a model file"):
        find_shards(str(special_file(tmp_path, kind)))
