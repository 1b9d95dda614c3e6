from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy

from rankmesh.comm.errors import InputError
from rankmesh.compiler.element_types.value_types import TensorType
from rankmesh.launch.rank import npz
from rankmesh.worker.partition.plan import Signature

pytestmark = pytest.mark.pure

F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
X, Y = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.int64)


def signature(name: str, dtype: np.dtype = F32, shape: tuple[int, ...] | None = (3,)) -> Signature:
    return Signature(name, f"value of {name}", TensorType(dtype, shape))


AB = [signature("a"), signature("b", np.dtype(np.int64), (4,))]
XY = [signature("x"), signature("y", np.dtype(np.int64), (4,))]


def saved(tmp_path: Path, **arrays: np.ndarray) -> str:
    path = tmp_path / "some.npz"
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize("names", [("x", "y"), ("in_0", "in_1"), ("x", "in_1"), ("in_0", "y")])
def test_inputs_by_name_and_by_number(tmp_path: Path, names: tuple[str, str]) -> None:
    path = saved(
        tmp_path, **dict(zip(names, (X, Y), strict=True)), out_0=Y, out_7=X, out_whatever=X
    )
    found = npz.read_inputs(path, XY)
    assert list(found) == ["x", "y"]
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["y"], Y)


def test_references_by_name_and_by_number_may_be_partial(tmp_path: Path) -> None:
    path = saved(tmp_path, in_0=X, in_99=X, out_1=Y)
    assert list(npz.read_references(path, AB)) == ["b"]
    assert npz.read_references(saved(tmp_path, in_0=X), AB) == {}
    assert set(npz.read_references(saved(tmp_path, a=X, out_1=Y), AB)) == {"a", "b"}


def test_a_models_own_name_comes_first(tmp_path: Path) -> None:
    found = npz.read_inputs(
        saved(tmp_path, out_0=X, in_0=Y), [signature("out_0"), signature("in_0")]
    )
    np.testing.assert_array_equal(found["out_0"], X)
    np.testing.assert_array_equal(found["in_0"], Y)


def test_one_file_serves_both_sides_by_names(tmp_path: Path) -> None:
    """Inputs by name beside outputs by name or number, or the other way round."""
    for arrays in (
        {"x": X, "y": Y, "a": Y, "out_1": X},
        {"in_0": X, "y": Y, "a": Y, "b": X},
        {"x": X, "in_1": Y, "out_0": Y, "out_1": X},
    ):
        path = saved(tmp_path, **arrays)
        assert {n: a.dtype for n, a in npz.read_inputs(path, XY, ["a", "b"]).items()} == {
            "x": F32,
            "y": Y.dtype,
        }
        assert {n: a.dtype for n, a in npz.read_references(path, AB, ["x", "y"]).items()} == {
            "a": Y.dtype,
            "b": F32,
        }


def test_a_name_of_both_sides_is_theirs_who_lack_the_number(tmp_path: Path) -> None:
    path = saved(tmp_path, x=X, out_0=X + 1)
    np.testing.assert_array_equal(npz.read_inputs(path, XY[:1], ["x"])["x"], X)
    np.testing.assert_array_equal(npz.read_references(path, XY[:1], ["x"])["x"], X + 1)
    path = saved(tmp_path, x=X)
    np.testing.assert_array_equal(npz.read_references(path, XY[:1], ["x"])["x"], X)


def test_an_array_of_neither_side_names_what_both_have(tmp_path: Path) -> None:
    path = saved(tmp_path, x=X, y=Y, strange=X)
    for read in (
        lambda: npz.read_inputs(path, XY, ["a"]),
        lambda: npz.read_references(path, AB[:1], ["x", "y"]),
    ):
        with pytest.raises(
            InputError, match="array 'strange', which the model does not know"
        ) as caught:
            read()
        assert all(
            phrase in str(caught.value)
            for phrase in ("['x', 'y']", "['in_0', 'in_1']", "['a']", "['out_0']")
        )


@pytest.mark.parametrize(
    ("arrays", "phrases"),
    [
        ({"in_0": X, "in_1": Y, "z": X}, ["array 'z'", "['x', 'y']", "in_0", "in_1"]),
        ({"in_0": X, "in_1": Y, "in_2": X}, ["array 'in_2'"]),
        ({"in_0": X, "in_1": Y, "output": X}, ["array 'output'"]),
        ({"x": X}, ["no array for the inputs ['y']", "it has ['x']", "in_0"]),
        ({"out_0": X}, ["no array for the inputs ['x', 'y']. Name them so"]),
        ({"x": X, "in_0": X, "y": Y}, ["two arrays for 'x'"]),
    ],
)
def test_inputs_that_are_unknown_missing_or_double(
    tmp_path: Path, arrays: dict, phrases: list[str]
) -> None:
    path = saved(tmp_path, **arrays)
    with pytest.raises(InputError) as caught:
        npz.read_inputs(path, XY)
    for phrase in (path, *phrases):
        assert phrase in str(caught.value)


@pytest.mark.parametrize("name", ["z", "out_2", "inputs"])
def test_unknown_references(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"array '{name}'"):
        npz.read_references(saved(tmp_path, out_0=X, **{name: X}), AB)


def test_names_of_a_model_without_outputs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"It has the outputs \[\], also known as \[\]"):
        npz.read_references(saved(tmp_path, out_0=X), [])


def test_bfloat16_comes_as_float32(tmp_path: Path) -> None:
    found = npz.read_inputs(saved(tmp_path, x=X), [signature("x", BF16)])
    assert found["x"].dtype == BF16
    np.testing.assert_array_equal(found["x"].astype(np.float32), X)
    assert npz.read_inputs(saved(tmp_path, x=Y), [signature("x", BF16)])["x"].dtype == np.int64
    assert npz.read_inputs(saved(tmp_path, x=X.astype(np.float64)), XY[:1])["x"].dtype == np.float64


def test_ones() -> None:
    signatures = [
        signature("a", BF16, (2, -1, 0)),
        signature("b", np.dtype(bool), ()),
        signature("c", shape=(-1,)),
    ]
    found = npz.ones(signatures, {"c": (7,)})
    assert {n: (a.dtype, a.shape) for n, a in found.items()} == {
        "a": (BF16, (2, 1, 0)),
        "b": (np.dtype(bool), ()),
        "c": (F32, (7,)),
    }
    assert found["b"] and found["c"][0] == 1
    with pytest.raises(
        InputError, match="rank of the input 'd' is unknown: give the inputs with --inputs"
    ):
        npz.ones([signature("d", shape=None)], {})


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    arrays = {
        "out_0": X.astype(BF16),
        "out_1": np.array(7, np.int64),
        "out_2": np.zeros((0, 2), bool),
    }
    npz.write(path, arrays)
    with np.load(path) as archive:
        assert {n: (archive[n].dtype.name, archive[n].shape) for n in archive.files} == {
            "out_0": ("float32", (3,)),
            "out_1": ("int64", ()),
            "out_2": ("bool", (0, 2)),
        }
        np.testing.assert_array_equal(archive["out_0"], X)
    npz.write(path, {"out_0": Y})
    assert list(npz.read_references(path, [signature("y")])) == ["y"]
    assert os.listdir(tmp_path) == ["out"]


def test_writing_where_one_cannot(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "out.npz", tmp_path, Path(os.devnull)):
        with pytest.raises(InputError, match=f"^{path}: "):
            npz.write(str(path), {"out_0": X})
    assert os.listdir(tmp_path) == [] and not os.path.isfile(os.devnull)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    npz.write(str(path), {"out_0": X})
    before = path.read_bytes()
    with pytest.raises(
        TypeError, match="multiple values"
    ):  # the one name that numpy.savez cannot take
        npz.write(str(path), {"out_0": X, "file": X})
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["out.npz"]


def write_garbage(path: Path, kind: str) -> None:
    if kind == "npy":
        np.save(path, X)
        Path(f"{path}.npy").rename(path)
    elif kind == "objects":
        np.savez(path, in_0=np.array([{}, []], dtype=object))
        Path(f"{path}.npz").rename(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "no array inside":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("in_0", "hello")
    elif kind == "bad array inside":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("in_0.npy", b"\x93NUMPY\x01\x00\x10\x00not a dictionary")
    elif kind == "bool for a size":
        header = io.BytesIO()
        npy.write_array_header_1_0(
            header, {"descr": "<f4", "fortran_order": False, "shape": (True, 2)}
        )
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("in_0.npy", header.getvalue() + bytes(8))
    else:
        path.write_bytes({"empty": b"", "text": b"hello", "cut": b"PK\x03\x04 cut"}[kind])


@pytest.mark.parametrize(
    "kind",
    [
        "npy",
        "objects",
        "folder",
        "no array inside",
        "bad array inside",
        "bool for a size",
        "empty",
        "text",
        "cut",
    ],
)
def test_files_that_are_no_npz(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    write_garbage(path, kind)
    with pytest.raises(InputError, match=f"^{path}: .*numpy.savez") as caught:
        npz.read_inputs(str(path), [signature("x")])
    assert "unsafely" not in str(caught.value)  # numpy's advice for what is no zip


def test_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.npz: no such file"):
        npz.read_references(str(tmp_path / "none.npz"), [signature("y")])


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3),
    kept=st.floats(0, 1),
    compressed=st.booleans(),
)
def test_corrupt_files_end_in_one_error(
    tmp_path: Path, flips: list[tuple[float, int]], kept: float, compressed: bool
) -> None:
    path = tmp_path / "corrupt.npz"
    (np.savez_compressed if compressed else np.savez)(path, in_0=np.zeros(50, np.float32), out_0=Y)
    data = bytearray(path.read_bytes())
    for at, change in flips:
        data[int(at * len(data))] ^= change
    path.write_bytes(bytes(data[: int(kept * len(data)) if kept < 0.5 else len(data)]))
    try:
        found = npz.read_inputs(str(path), [signature("x")])
    except InputError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert list(found) == ["x"]
