"""Bad files of every kind: one clear error, in little time and memory; and never another one."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest
from encrypted import ENTRIES, KEY, encrypted
from fuzzed import KINDS, survives, survives_as
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_changes import change
from primitives import Fixed, Parameter, Writer, run

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.crypto import Decryption
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.compiler.mindir.segments import MODES
from rankmesh.launch.inspection.inspect import describe

DATA = Path(__file__).parents[2] / "data"
KEPT = sorted(path for path in (DATA / "fuzz").iterdir())
NAMES = (
    "mlp_mint",
    "cf_if",
    "cf_while",
    "int_bool_io",
    "tuple_io",
    "lstm_cell",
    "zoo_reduce",
    "dist_tp_mlp_2",
    "old_relu",
    "dyn_conv",
)
SOURCES = [next((DATA / "mindir" / name).glob("*.mindir")) for name in NAMES]
CIPHERED = [next((DATA / "mindir" / name).glob("*.mindir")) for name in ENTRIES]
FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_what_the_fuzzer_found(path: Path, tmp_path: Path) -> None:
    survives_as(path.name.partition("-")[0], tmp_path / "m.mindir", path.read_bytes())


@FUZZ
@given(st.sampled_from(SOURCES), st.integers(0, 2**32), st.integers(1, 4))
def test_models_with_fields_changed(tmp_path: Path, source: Path, seed: int, count: int) -> None:
    model = ModelProto.FromString(source.read_bytes())
    change(model, Random(seed), count)
    survives(tmp_path / "changed.mindir", model.SerializeToString())
    with suppress(ModelError):
        describe(str(tmp_path / "changed.mindir"))


@FUZZ
@given(
    st.sampled_from(CIPHERED),
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 255)), min_size=1, max_size=5),
    st.integers(0, 20_000),
)
def test_encrypted_files_with_bytes_changed(
    tmp_path: Path, source: Path, changes: list[tuple[int, int]], length: int
) -> None:
    content = bytearray(source.read_bytes()[: max(64, length)])
    for place, value in changes:
        content[place] = value
    survives_as("encrypted", tmp_path / "changed.mindir", bytes(content))


@FUZZ
@given(
    st.sampled_from(KINDS),
    st.sampled_from([b"", b"\xd8\x5e\x3a\x7f", b"\xd9\x5e\x3a\x7f", b"\xda\x5e\x3a\x7f"]),
    st.binary(max_size=300),
)
def test_any_bytes_of_any_kind(tmp_path: Path, kind: str, head: bytes, content: bytes) -> None:
    survives_as(kind, tmp_path / "any.mindir", head + content)


def peak(path: Path, decryption: Decryption | None = None) -> int:
    """The most bytes that reading and lowering a bad file take."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelError):
            lower_mindir(read_model(str(path), decryption))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "dims",
    [[1 << 40], [1 << 62, 1 << 62], [-1, 4], [(1 << 63) - 1], [0, 1 << 62, 3], [1 << 62] * 300_000],
)
@pytest.mark.parametrize("where", ["weight", "constant"])
def test_declared_dimensions_allocate_nothing(tmp_path: Path, where: str, dims: list[int]) -> None:
    writer, array = Writer(), np.ones(4, np.float32)
    key = writer.node(
        "Add", [Parameter(array) if where == "weight" else Fixed(array), array], array
    )
    records = [
        *writer.graph.parameter,
        *(t for n in writer.graph.node for a in n.attribute for t in a.tensors),
    ]
    next(record for record in records if record.raw_data).dims[:] = dims
    path = writer.save(tmp_path / "one.mindir", key, array)
    assert peak(path) < (4 << 20) + 64 * len(dims)


@pytest.mark.parametrize("mode", MODES)
def test_declared_lengths_of_segments_allocate_nothing(tmp_path: Path, mode: str) -> None:
    content = bytearray(encrypted([bytes(100)], mode))
    at = 20 if mode == "AES-GCM" else 4
    content[at : at + 4], content[at + 24 : at + 28] = (
        (2**32 - 8).to_bytes(4, "little"),
        (2**32 - 32).to_bytes(4, "little"),
    )
    path = tmp_path / "one.mindir"
    path.write_bytes(content)
    assert peak(path, Decryption(KEY, mode)) < 4 << 20


def test_nan_and_infinities_pass_unharmed(tmp_path: Path) -> None:
    """In weights, in constants and in plain and encrypted files; with the payload bits of the
    NaNs."""
    bits = np.array([0x7FC00000, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 1], np.uint32)
    odd = bits.view(np.float32)
    writer = Writer()
    outputs = tuple(
        writer.node("Reshape", [of(odd), (2, 3)], odd.reshape(2, 3)) for of in (Parameter, Fixed)
    )
    key = writer.node("MakeTuple", list(outputs), (odd.reshape(2, 3),) * 2)
    path = writer.save(tmp_path / "one.mindir", key, (odd.reshape(2, 3),) * 2)
    for got in run(tmp_path, lower_mindir(read_model(str(path))), {}):
        np.testing.assert_array_equal(got.reshape(-1).view(np.uint32), bits)
    path.write_bytes(encrypted([path.read_bytes()]))
    (weight,) = read_model(str(path), Decryption(KEY)).weights.values()
    np.testing.assert_array_equal(weight.array().view(np.uint32), bits)
