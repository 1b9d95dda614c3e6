from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_models import graph, model, node

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.model_file.model_format import MINDIR, ONNX, format_of, load_model
from rankmesh.worker.partition.cut import make_plan

pytestmark = pytest.mark.pure


def external(dtype: int = TensorProto.FLOAT, **entries: Any) -> TensorProto:
    record = TensorProto(name="w", data_type=dtype, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        record.external_data.add(key=key, value=str(value))
    return record


def adding(weight: TensorProto) -> ModelProto:
    return model([node("Add", "x w", "y")], {"x": [4]}, {"y": [4]}, constants={"w": weight})


def write(folder: Path, content: ModelProto) -> str:
    (folder / "model").mkdir(exist_ok=True)
    path = folder / "model" / "m.onnx"
    path.write_bytes(content.SerializeToString())
    return str(path)


def test_onnx_and_mindir_are_told_apart_by_content(tmp_path: Path) -> None:
    path = tmp_path / "m.mindir"
    path.write_bytes(
        adding(numpy_helper.from_array(np.zeros(4, np.float32), "w")).SerializeToString()
    )
    assert (
        format_of(str(path)) is ONNX and load_model(str(path)).model.graph.node[0].op_type == "Add"
    )
    path.write_bytes(b"\x0a\x051.2.0")
    assert format_of(str(path)) is MINDIR


@pytest.mark.parametrize("content", [b"\x08", b"\x99hello world, this is no model"])
def test_what_is_called_onnx_and_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"m\.onnx: not a readable ONNX file"):
        load_model(str(path))


@pytest.mark.parametrize(
    ("path", "reason"), [("none.onnx", "No such file"), (".", "Is a directory")]
)
def test_files_that_cannot_be_read(tmp_path: Path, path: str, reason: str) -> None:
    with pytest.raises(ModelError, match=f"cannot be read: {reason}"):
        load_model(str(tmp_path / path))


def test_the_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(write(tmp_path, adding(numpy_helper.from_array(np.zeros(4, np.float32), "w"))))
    monkeypatch.chdir(path.parent)
    assert load_model("m.onnx").folder == str(path.parent)


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "w.bin"},
        {"location": "w.bin", "length": 16},
        {"location": "w.bin", "offset": 16, "length": 16},
        {"location": "w.bin", "offset": 16},
        {"location": "./w.bin", "offset": 0, "checksum": "abc"},
    ],
)
def test_external_data_that_is_there(tmp_path: Path, entries: dict[str, Any]) -> None:
    path = write(tmp_path, adding(external(**entries)))
    (tmp_path / "model" / "w.bin").write_bytes(bytes(32))
    assert load_model(path).model.graph.initializer[0].external_data[0].value == "w.bin"


@pytest.mark.parametrize(
    ("entries", "phrases"),
    [
        (
            {"location": "none.bin"},
            ["initializer 'w' needs the data file", "none.bin, which is missing"],
        ),
        ({}, ["outside"]),
        ({"location": ""}, ["outside"]),
        ({"location": "../w.bin"}, ["'../w.bin'", "refused"]),
        ({"location": "/etc/passwd"}, ["outside"]),
        ({"location": "link.bin"}, ["outside"]),
        ({"location": "."}, ["missing"]),
        (
            {"location": "w.bin", "length": 33},
            ["w.bin: is too short", "bytes 0 to 33", "the file has 32"],
        ),
        ({"location": "w.bin", "offset": 17}, ["bytes 17 to 33", "the file has 32"]),
        ({"location": "w.bin", "offset": 24, "length": 8}, ["bytes 24 to 40"]),
        ({"location": "w.bin", "offset": -1, "length": 16}, ["too short or of another model"]),
        ({"location": "w.bin", "length": -16}, ["too short or of another model"]),
        ({"location": "w.bin", "offset": "0x10"}, ["is not a number"]),
        ({"location": "w.bin", "length": "all"}, ["is not a number"]),
    ],
)
def test_external_data_that_cannot_be(
    tmp_path: Path, entries: dict[str, Any], phrases: list[str]
) -> None:
    path = write(tmp_path, adding(external(**entries)))
    (tmp_path / "model" / "w.bin").write_bytes(bytes(32))
    (tmp_path / "w.bin").write_bytes(bytes(32))
    (tmp_path / "model" / "link.bin").symlink_to("../w.bin")
    with pytest.raises(ModelError) as caught:
        load_model(path)
    for phrase in ("m.onnx", "'w'", *phrases):
        assert phrase in str(caught.value)


def in_constant(weight: TensorProto) -> ModelProto:
    return model([helper.make_node("Constant", [], ["y"], value=weight)], {}, {"y": [4]})


def in_branch(weight: TensorProto) -> ModelProto:
    branches = [
        graph([node("Neg", "w", "n")], {}, {"n": [4]}, constants={"w": weight}) for _ in range(2)
    ]
    choice = node("If", "go", "y", then_branch=branches[0], else_branch=branches[1])
    return model([choice], {"go": (bool, [])}, {"y": [4]})


def in_function(weight: TensorProto) -> ModelProto:
    own = helper.make_function(
        "own",
        "F",
        [],
        ["q"],
        [helper.make_node("Constant", [], ["q"], value=weight)],
        [helper.make_opsetid("", 21)],
    )
    return model([helper.make_node("F", [], ["y"], domain="own")], {}, {"y": [4]}, functions=[own])


@pytest.mark.parametrize("place", [in_constant, in_branch, in_function])
def test_external_data_is_checked_wherever_it_hides(tmp_path: Path, place: Any) -> None:
    with pytest.raises(ModelError, match="outside the model's folder"):
        load_model(write(tmp_path, place(external(location="../w.bin"))))


def test_packed_weights_take_two_elements_per_byte(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w.bin").write_bytes(bytes(2))
    load_model(
        write(tmp_path, adding(external(dtype=TensorProto.INT4, location="w.bin", length=2)))
    )
    with pytest.raises(ModelError, match="bytes 0 to 3, and the file has 2"):
        load_model(
            write(tmp_path, adding(external(dtype=TensorProto.INT4, location="w.bin", length=3)))
        )


def test_every_cut_of_a_file_is_an_error_or_a_smaller_model(tmp_path: Path) -> None:
    data = adding(numpy_helper.from_array(np.zeros(4, np.float32), "w")).SerializeToString()
    path, errors = tmp_path / "m.onnx", 0
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        try:
            make_plan(load_model(str(path)), 0, 1)
        except ModelError as error:
            assert str(error).startswith(str(path))
            errors += 1
    assert errors > len(data) * 0.8


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    data = adding(external(location="weight.bin")).SerializeToString()
    path.write_bytes(data.replace(b"weight.bin", b"weig\xff\xfe.bin"))
    with pytest.raises(ModelError, match=f"^{path}: "):
        load_model(str(path))
