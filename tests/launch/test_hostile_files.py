"""What the command line says to files made to fill the memory, to last for ever or to fail in the
middle: one line.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from hostile import calling, function, refused, special_file
from onnx import ModelProto, TensorProto, save
from onnx_models import collective, model, node
from primitives import Writer
from processes import rankmesh
from shards import summing

X = {"x": [4]}
NEG = [node("Neg", "x", "y")]
HUGE = [1 << 50]
MANY = [1] * 5000


def written(folder: Path, made: ModelProto) -> Path:
    save(made, str(folder / "m.onnx"))
    return folder / "m.onnx"


@pytest.mark.parametrize(
    ("option", "kind", "status"),
    [
        *(
            (option, kind, status)
            for kind in ("pipe", "endless")
            for option, status in (
                ("--inputs", 3),
                ("--expect", 3),
                ("--config", 2),
                ("--rank-table", 2),
            )
        ),
        ("--key-file", "endless", 2),
    ],
)
def test_what_is_no_file_is_not_waited_for(
    tmp_path: Path, option: str, status: int, kind: str
) -> None:
    path = special_file(tmp_path, kind)
    refused(
        status,
        str(path),
        "regular file",
        arguments=["run", written(tmp_path, model(NEG, X, {"y": [4]})), option, path],
    )


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "socket"])
def test_shards_that_are_no_files_are_not_waited_for(tmp_path: Path, kind: str) -> None:
    pattern = summing(tmp_path)
    (tmp_path / "sum1.onnx").unlink()
    path = special_file(tmp_path, kind, "sum1.onnx")
    refused(3, str(path), arguments=["inspect", pattern])


def test_a_configuration_that_never_ends(tmp_path: Path) -> None:
    refused(2, "/dev/zero", "device", arguments=["inspect", "--config", "/dev/zero"])


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ([function("f", "f")], "calls itself"),
        ([function("f", "g"), function("g", "f")], "calls itself"),
        (
            [
                function("f", "c0"),
                *(function(f"c{at}", f"c{at + 1}") for at in range(500)),
                function("c500"),
            ],
            "100 times",
        ),
        (
            [
                function("f", "c0"),
                *(function(f"c{at}", *[f"c{at + 1}"] * 2) for at in range(30)),
                function("c30"),
            ],
            "1073741824 nodes",
        ),
        ([function("f"), function("f")], "the same name"),
    ],
)
def test_functions_that_call_functions(tmp_path: Path, functions: list, said: str) -> None:
    path = written(tmp_path, model([calling("f", "x", "y")], X, {"y": [4]}, functions=functions))
    refused(3, str(path), said, arguments=["inspect" if len(functions) > 1 else "run", path])


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (model(NEG, {"x": MANY}, {"y": MANY}), "'x' has 5000 dimensions, expected at most 32"),
        (model(NEG, X, {"y": MANY}), "'y' has 5000 dimensions"),
        (
            model(NEG, {"x": HUGE}, {"y": HUGE}),
            "'x' is float32[1125899906842624], which is more than any process",
        ),
        (model(NEG, X, {"y": [1 << 62, 1 << 62]}), "more than any process"),
        (
            model(
                [node("Add", "x w", "y")],
                X,
                {"y": [4]},
                constants={"w": TensorProto(name="w", data_type=1, dims=MANY, raw_data=bytes(4))},
            ),
            "'w' is corrupt: 5000 dimensions, expected at most 32",
        ),
        (
            model(
                [node("Neg", "x", "q")],
                X,
                {"w": None},
                constants={"w": TensorProto(name="w", data_type=1, dims=HUGE, raw_data=bytes(4))},
            ),
            "'w' is corrupt: it has 4 bytes, expected 4503599627370496",
        ),
    ],
    ids=["inputs", "outputs", "bytes", "overflow", "weight", "constant"],
)
def test_shapes_that_nothing_has(tmp_path: Path, made: ModelProto, said: str) -> None:
    path = written(tmp_path, made)
    refused(3, str(path), said, arguments=["run", path])


def test_a_shape_that_nothing_has_is_not_described(tmp_path: Path) -> None:
    path = written(tmp_path, model(NEG, {"x": MANY}, {"y": MANY}))
    refused(3, str(path), "'x' has 5000 dimensions", arguments=["inspect", path])


def test_inputs_larger_than_the_memory(tmp_path: Path) -> None:
    path = written(tmp_path, model(NEG, {"x": [1 << 43]}, {"y": [1 << 43]}))
    refused(3, "35184372088832 bytes", arguments=["run", path])


@pytest.mark.parametrize(
    "attributes", [{"size": 1 << 40}, {"size": 1 << 62}, {"root": 1 << 40}, {"ranks": [0, 1 << 40]}]
)
def test_ranks_that_no_job_has(tmp_path: Path, attributes: dict[str, object]) -> None:
    path = written(
        tmp_path, model([collective("Broadcast", "x", "y", **attributes)], X, {"y": [4]})
    )
    refused(3, str(path), "ranks, expected at most 16384", arguments=["inspect", path])


def test_a_mindir_of_a_few_bytes_for_a_trillion_ranks(tmp_path: Path) -> None:
    writer, x = Writer(), np.ones(4, np.float32)
    key = writer.node("AllGather", [x], None, {"group": "hccl_world_group", "rank_size": 1 << 40})
    path = writer.save(tmp_path / "m.mindir", key, x)
    assert path.stat().st_size < 300
    refused(
        3, str(path), "1099511627776 ranks, expected at most 16384", arguments=["inspect", path]
    )
    refused(3, str(path), "1099511627776 ranks", arguments=["run", path])


def zip_of_zeros(path: Path, name: str, shape: tuple[int, ...]) -> Path:
    """An NPZ of one array of float32 zeros, packed a thousand times smaller."""
    header = np.lib.format.magic(1, 0)
    text = (
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117)
        + b"\n"
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as member,
    ):
        member.write(header + len(text).to_bytes(2, "little") + text)
        for _ in range(int(np.prod(shape)) * 4 >> 24):
            member.write(bytes(1 << 24))
    return path


@pytest.fixture(scope="module")
def expanding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A megabyte that expands to more than a gigabyte, which open dimensions may take."""
    return zip_of_zeros(tmp_path_factory.mktemp("zip") / "in.npz", "in_0", (65 << 22,))


@pytest.mark.parametrize("declared", [[4], ["n"]])
def test_an_archive_that_expands_a_thousandfold(
    tmp_path: Path, expanding: Path, declared: list
) -> None:
    shard = written(tmp_path, model(NEG, {"x": declared}, {"y": declared}))
    refused(
        3,
        f"{expanding}: 'in_0' would expand from",
        "to 1090519168 bytes",
        arguments=["run", shard, "--inputs", expanding],
    )


def test_an_archive_of_what_the_model_takes_expands(tmp_path: Path) -> None:
    path = zip_of_zeros(tmp_path / "in.npz", "in_0", (5 << 22,))
    nodes, bounds = [node("Slice", "x s e", "y")], {"s": np.array([0]), "e": np.array([4])}
    shard = written(tmp_path, model(nodes, {"x": [5 << 22]}, {"y": [4]}, constants=bounds))
    done = rankmesh("run", shard, "--inputs", path)
    assert done.returncode == 0, done.stderr
