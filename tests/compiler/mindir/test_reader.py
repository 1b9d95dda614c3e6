"""What the reader makes of files: weights left in place, and of bad files an error that says what
and where.
"""

from __future__ import annotations

import os
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from fuzzed import survives
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankmesh.comm.errors import ModelError
from rankmesh.comm.wire_fields import WireError, read_varint
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.graph import MONAD, MindirModel
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.compiler.mindir.wire import write_varint

pytestmark = pytest.mark.pure

DATA = Path(__file__).parents[2] / "data" / "mindir"
MLP = DATA / "mlp" / "mlp.mindir"
SPLIT = "split_mlp_graph.mindir"


def refuse(path: Path, *phrases: str) -> None:
    """Reading fails by a ModelError that names the file and says each phrase."""
    with pytest.raises(ModelError) as caught:
        read_model(str(path))
    for phrase in (str(path.parent), *phrases):
        assert phrase in str(caught.value)


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """A split model of its own: the graph file; its data lie in split_mlp_variables/data_0."""
    shutil.copytree(DATA / "split_mlp", tmp_path / "model")
    return tmp_path / "model" / SPLIT


def data_file(split: Path) -> Path:
    return split.parent / "split_mlp_variables" / "data_0"


def relocate(split: Path, location: str, offset: int | None = None) -> None:
    """Let every parameter of a split model point elsewhere."""
    model = ModelProto.FromString(split.read_bytes())
    for parameter in model.graph.parameter:
        parameter.external_data.location = location
        if offset is not None:
            parameter.external_data.offset = offset
    split.write_bytes(model.SerializeToString())


def test_weights_stay_in_their_file() -> None:
    model = read_model(str(MLP))
    whole = MLP.read_bytes()
    assert model.weights
    for weight in model.weights.values():
        assert weight.path == str(MLP)
        assert weight.array().tobytes() == whole[weight.offset : weight.offset + weight.length]
        assert not weight.array().flags.writeable


def test_weights_of_a_split_model_are_those_of_the_whole() -> None:
    whole, split = read_model(str(MLP)), read_model(str(DATA / "split_mlp" / SPLIT))
    arrays = {weight.name: weight.array() for weight in whole.weights.values()}
    assert len(split.weights) == len(arrays)
    for weight in split.weights.values():
        assert weight.path.endswith("data_0")
        np.testing.assert_array_equal(weight.array(), arrays[weight.name])


def test_reading_and_lowering_copy_no_weight(tmp_path: Path) -> None:
    model = ModelProto.FromString(MLP.read_bytes())
    big = model.graph.parameter[0]
    big.dims[:] = [64 << 20 >> 2]
    big.data_type = 1
    big.raw_data = bytes(64 << 20)
    path = tmp_path / "big.mindir"
    path.write_bytes(model.SerializeToString())
    del model, big
    tracemalloc.start()
    try:
        lower_mindir(read_model(str(path)))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_monads_closures_and_tuples_are_told_apart() -> None:
    model = read_model(str(DATA / "cf_lazy_inline" / "cf_lazy_inline.mindir"))
    assert model.functions
    assert any(value is MONAD for value in model.constants.values())
    assert any(node.target in model.functions for node in model.entry.nodes)


@pytest.mark.parametrize("length", [1, 10, 1000, 7000, 15000, len(MLP.read_bytes()) - 1])
def test_truncated_file(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.mindir"
    path.write_bytes(MLP.read_bytes()[:length])
    refuse(path, "not a readable MindIR file", "at byte", f"of {length}")


@pytest.mark.parametrize(
    ("content", "phrases"),
    [
        (b"", ("is empty",)),
        (b"this is a text file, and no model\n" * 40, ("not a readable MindIR file", "at byte 0")),
        (b"PK\x03\x04" + bytes(100), ("not a readable MindIR file",)),
        (b"\x0a\x031.1", ("holds no graph", "mindspore.export")),
    ],
)
def test_file_that_is_no_mindir(tmp_path: Path, content: bytes, phrases: tuple[str, ...]) -> None:
    path = tmp_path / "other.mindir"
    path.write_bytes(content)
    refuse(path, *phrases)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    refuse(tmp_path / "none.mindir", "cannot be read", "No such file")
    (tmp_path / "folder").mkdir()
    refuse(tmp_path / "folder", "cannot be read")


def test_big_endian_file(tmp_path: Path) -> None:
    model = ModelProto.FromString(MLP.read_bytes())
    model.little_endian = False
    path = tmp_path / "big.mindir"
    path.write_bytes(model.SerializeToString())
    refuse(path, "big-endian")


def test_weight_of_the_wrong_size(tmp_path: Path) -> None:
    model = ModelProto.FromString(MLP.read_bytes())
    model.graph.parameter[0].dims[0] += 1
    path = tmp_path / "wrong.mindir"
    path.write_bytes(model.SerializeToString())
    refuse(path, "bytes and has", model.graph.parameter[0].ref_key)


@pytest.mark.parametrize("target", ["", "REF::"])
def test_node_that_names_nothing(tmp_path: Path, target: str) -> None:
    model = ModelProto.FromString(MLP.read_bytes())
    node = next(node for node in model.graph.node if node.op_type.startswith("REF::"))
    node.op_type = target
    path = tmp_path / "nameless.mindir"
    path.write_bytes(model.SerializeToString())
    refuse(path, node.output[0], "names neither a primitive nor what it calls")


def test_data_file_missing(split: Path) -> None:
    data_file(split).unlink()
    refuse(split, "needs the data file", str(data_file(split)), "missing")


def test_data_file_too_short(split: Path) -> None:
    os.truncate(data_file(split), 100)
    refuse(split, "too short", "the file has 100")


def test_data_offsets_out_of_bounds(split: Path) -> None:
    relocate(split, "split_mlp_variables/data_0", offset=1 << 60)
    refuse(split, "too short")
    relocate(split, "split_mlp_variables/data_0", offset=-64)
    refuse(split, "bytes -64")


@pytest.mark.parametrize(
    "location",
    [
        "",
        "../secret",
        "split_mlp_variables/../../secret",
        "/etc/passwd",
        "split_mlp_variables/\0data_0",
        ".",
    ],
)
def test_location_outside_the_folder(split: Path, location: str) -> None:
    (split.parent.parent / "secret").write_bytes(bytes(1 << 16))
    relocate(split, location)
    refuse(split, location if location.isprintable() else "data file")


def test_link_that_leads_outside(split: Path) -> None:
    outside = split.parent.parent / "secret"
    data_file(split).rename(outside)
    data_file(split).symlink_to(outside)
    refuse(split, "outside", "split_mlp_variables/data_0")


def test_link_inside_the_folder(split: Path) -> None:
    moved = split.parent / "elsewhere"
    data_file(split).rename(moved)
    data_file(split).symlink_to(moved)
    assert isinstance(read_model(str(split)), MindirModel)


FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SMALL = [
    DATA / name / f"{name}.mindir"
    for name in ("mlp_mint", "cf_if", "int_bool_io", "tuple_io", "lstm_cell")
]


@FUZZ
@given(
    st.sampled_from(SMALL),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_bytes_changed_at_random(
    tmp_path: Path, source: Path, changes: list[tuple[float, int]]
) -> None:
    content = bytearray(source.read_bytes())
    for place, value in changes:
        content[int(place * (len(content) - 1))] = value
    survives(tmp_path / "changed.mindir", bytes(content))


@FUZZ
@given(st.sampled_from(SMALL), st.floats(0, 1), st.floats(0, 1), st.binary(max_size=20))
def test_stretches_removed_and_put_in(
    tmp_path: Path, source: Path, start: float, end: float, new: bytes
) -> None:
    content = source.read_bytes()
    first, last = sorted((int(start * len(content)), int(end * len(content))))
    survives(tmp_path / "changed.mindir", content[:first] + new + content[last:])


@FUZZ
@given(st.binary(max_size=400))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    survives(tmp_path / "any.mindir", content)


@given(st.integers(0, 2**64 - 1))
def test_varints_come_back(value: int) -> None:
    encoded = write_varint(value)
    assert read_varint(memoryview(encoded), 0, len(encoded)) == (value, len(encoded))


def test_varint_without_end() -> None:
    with pytest.raises(WireError, match="has no end at byte 0"):
        read_varint(memoryview(b"\xff" * 11), 0, 11)
