"""Attacks by the tensors of a user's ONNX file: each worked on a process that loads them as the
file says.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, helper, numpy_helper
from onnx_models import graph, model, node

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.onnx_graph.external import entries_of, set_entries
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.executors.saved_weights import external_tensors
from rankmesh.worker.partition.plan import Segment

F32 = np.float32
PREDICT = """
import sys
import numpy as np
import rankmesh
model = rankmesh.Model()
model.build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR)
inputs = [np.eye(4, 64, dtype=np.float32)[:, :tensor.shape[-1]] for tensor in model.get_inputs()]
sys.stdout.buffer.write(model.predict(inputs)[0].get_data_to_numpy().tobytes())
"""


def predicted(path: Path) -> np.ndarray:
    """What the model at `path` gives, in a process of its own, which an attack may end."""
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, str(path)], capture_output=True, timeout=250
    )
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, F32)


def external(
    dtype: int = TensorProto.FLOAT,
    dims: Any = (4,),
    more: dict[str, str] | None = None,
    **entries: Any,
) -> TensorProto:
    record = TensorProto(name="w", data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (*entries.items(), *(more or {}).items()):
        record.external_data.add(key=key, value=str(value))
    return record


def adding(weight: TensorProto) -> ModelProto:
    return model([node("Add", "x w", "y")], {"x": [4]}, {"y": [4]}, constants={"w": weight})


def written(folder: Path, content: ModelProto) -> str:
    (folder / "m.onnx").write_bytes(content.SerializeToString())
    return str(folder / "m.onnx")


# Keys of external data.


def packed_model(folder: Path, tail: int) -> tuple[Path, np.ndarray]:
    """A model whose weight lies outside, and which says that what onnxruntime packed of it is the
    file's last bytes.
    """
    weight = np.random.default_rng(0).standard_normal((64, 64), F32)
    product = model(
        [node("MatMul", "x w", "y")], {"x": [4, 64]}, {"y": [4, 64]}, constants={"w": weight}
    )
    OnnxRuntime().save(Segment(product, ("x",), ("y",)), "/", str(folder / "saved.onnx"))
    saved = onnx.load(folder / "saved.onnx", load_external_data=False)
    (tensor,) = external_tensors(saved)
    entries = entries_of(tensor)
    if "prepacked_0" not in entries:
        pytest.skip("onnxruntime packs no such weight on this CPU")
    (folder / "w.bin").write_bytes(weight.tobytes() + b"\x11" * tail)
    blob = f"{entries['prepacked_0'].split('|')[0]}|{weight.nbytes};{tail};0"
    set_entries(
        tensor,
        {"location": "w.bin", "offset": "0", "length": str(weight.nbytes), "prepacked_0": blob},
    )
    (folder / "m.onnx").write_bytes(saved.SerializeToString())
    return folder / "m.onnx", weight


@pytest.mark.parametrize("tail", [64, 4096 + 64, 96])
def test_what_a_file_says_onnxruntime_has_packed_is_not_read(tmp_path: Path, tail: int) -> None:
    """It is read far beyond the end: the result held the process's memory, or the process ended by
    SIGSEGV.
    """
    path, weight = packed_model(tmp_path, tail)
    np.testing.assert_array_equal(predicted(path), weight[:4].ravel())


@pytest.mark.pure
def test_only_location_offset_and_length_are_left(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(32))
    keys = {
        "offset": "16",
        "length": "16",
        "checksum": "x",
        "prepacked_0": "a|0;9;0",
        "strange": "1",
        "basepath": "/",
    }
    weight = external(location="w.bin", **keys)
    (read,) = load_model(written(tmp_path, adding(weight))).model.graph.initializer
    assert entries_of(read) == {"location": "w.bin", "offset": "16", "length": "16"}


@pytest.mark.pure
def test_a_key_that_is_given_twice_is_what_was_checked(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (read,) = load_model(
        written(tmp_path, adding(external(location="../w.bin", more={"location": "w.bin"})))
    ).model.graph.initializer
    assert [entry.value for entry in read.external_data if entry.key == "location"] == ["w.bin"]


@pytest.mark.pure
def test_weights_inside_the_file_say_nothing_about_others(tmp_path: Path) -> None:
    """Rankmesh itself points to them, behind what the file says."""
    weight = numpy_helper.from_array(np.ones((64, 64), F32), "w")
    weight.external_data.add(key="prepacked_0", value="MatMul+1|0;64;0")
    path = written(
        tmp_path,
        model(
            [node("MatMul", "x w", "y")], {"x": [4, 64]}, {"y": [4, 64]}, constants={"w": weight}
        ),
    )
    (read,) = load_model(path).model.graph.initializer
    assert set(entries_of(read)) == {"location", "offset", "length"}


@pytest.mark.pure
@pytest.mark.parametrize("mark", ["*/_ORT_MEM_ADDR_/*", "*/_ORT_NATIVE_ENDIAN_MEM_ADDR_/*"])
def test_an_address_in_memory_is_no_file(tmp_path: Path, mark: str) -> None:
    """onnxruntime 1.23 copies what lies at that address into the weight, and a folder can be called
    `*`.
    """
    (tmp_path / mark).parent.mkdir(parents=True)
    (tmp_path / mark).write_bytes(bytes(8192))
    with pytest.raises(
        ModelError, match="takes for an address in its memory: refused. Rename the file"
    ):
        load_model(written(tmp_path, adding(external(location=mark, offset=4096))))


@pytest.mark.pure
@pytest.mark.parametrize("element_type", ["INT4", "UINT4", "FLOAT4E2M1", "FLOAT8E4M3FN"])
def test_sizes_of_packed_types_count(tmp_path: Path, element_type: str) -> None:
    code = getattr(TensorProto, element_type, 0) or pytest.skip(f"this onnx has no {element_type}")
    size = 7 if "8" in element_type else 4
    weight = TensorProto(name="w", data_type=code, dims=[7], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(size))
    (read,) = load_model(written(tmp_path, adding(weight))).model.graph.initializer
    assert entries_of(read)["length"] == str(size)
    (tmp_path / "w.bin").write_bytes(bytes(size - 1))
    with pytest.raises(ModelError, match=f"lies at bytes 0 to {size}, and the file has {size - 1}"):
        load_model(str(tmp_path / "m.onnx"))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dims": [-4]}, r"the shape \[-4\] is impossible"),
        ({"dims": [2**62, 2**62]}, "is too short"),
        ({"data_type": TensorProto.STRING}, "element type 8 is not supported"),
        ({"data_type": 99}, "element type 99 is not supported"),
        ({"dims": [2]}, "has 16 bytes of .* data, expected 8"),
    ],
)
def test_external_data_whose_size_does_not_fit(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(32))
    weight = external(location="w.bin", length=16)
    for name, value in change.items():
        weight.ClearField(name)  # type: ignore[arg-type]
        weight.MergeFrom(TensorProto(**{name: value}))
    with pytest.raises(ModelError, match=words):
        load_model(written(tmp_path, adding(weight)))


# Sparse tensors.


def sparse(values: Any, indices: Any, dims: tuple[int, ...] = (4, 64)) -> SparseTensorProto:
    """A sparse tensor of these values and places; either may be a tensor of its own."""
    made = [
        one
        if isinstance(one, TensorProto)
        else numpy_helper.from_array(np.asarray(one, dtype), name)
        for one, dtype, name in ((values, F32, "w"), (indices, np.int64, ""))
    ]
    return SparseTensorProto(values=made[0], indices=made[1], dims=dims)


def as_initializer(tensor: SparseTensorProto) -> ModelProto:
    made = model([node("Add", "x w", "y")], {"x": [4, 64]}, {"y": [4, 64]})
    made.graph.sparse_initializer.append(tensor)
    return made


def as_constant(tensor: SparseTensorProto) -> ModelProto:
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.append(
        AttributeProto(name="sparse_value", type=AttributeProto.SPARSE_TENSOR, sparse_tensor=tensor)
    )
    return model([constant, node("Add", "x w", "y")], {"x": [4, 64]}, {"y": [4, 64]})


def in_a_branch(tensor: SparseTensorProto) -> ModelProto:
    branches = [graph([node("Identity", "w", "n")], {}, {"n": [4, 64]}) for _ in range(2)]
    for branch in branches:
        branch.sparse_initializer.append(tensor)
    always = numpy_helper.from_array(np.array(True), "go")
    choice = node("If", "go", "w_", then_branch=branches[0], else_branch=branches[1])
    return model(
        [choice, node("Add", "x w_", "y")], {"x": [4, 64]}, {"y": [4, 64]}, constants={"go": always}
    )


def in_a_function(tensor: SparseTensorProto) -> ModelProto:
    (constant, _) = as_constant(tensor).graph.node
    own = helper.make_function("own", "F", [], ["w"], [constant], [helper.make_opsetid("", 21)])
    return model(
        [helper.make_node("F", [], ["v"], domain="own"), node("Add", "x v", "y")],
        {"x": [4, 64]},
        {"y": [4, 64]},
        functions=[own],
    )


PLACES = pytest.mark.parametrize("place", [as_initializer, as_constant, in_a_branch, in_a_function])


@PLACES
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("outside", [True, False])
def test_sparse_weights_compute_as_dense_ones(
    tmp_path: Path, place: Callable[[SparseTensorProto], ModelProto], flat: bool, outside: bool
) -> None:
    """onnxruntime 1.23 reads no indices from another file; 1.31 none in a branch."""
    values, indices = (
        np.array([1, 2, 3], F32),
        np.array([0, 65, 255] if flat else [[0, 0], [1, 1], [3, 63]]),
    )
    given: tuple[Any, Any] = values, indices
    if outside:
        (tmp_path / "w.bin").write_bytes(values.tobytes() + indices.astype("<i8").tobytes())
        given = (
            external(location="w.bin", dims=[3], length=12, prepacked_0="MatMul+1|0;9;0"),
            external(TensorProto.INT64, dims=indices.shape, location="w.bin", offset=12),
        )
    written(tmp_path, place(sparse(*given)))
    expected = np.eye(4, 64, dtype=F32)
    expected[[0, 1, 3], [0, 1, 63]] += values
    np.testing.assert_array_equal(predicted(tmp_path / "m.onnx"), expected.ravel())


def short(dtype: int, size: int) -> TensorProto:
    return TensorProto(name="w", data_type=dtype, dims=[size], raw_data=bytes(8))


@pytest.mark.pure
@PLACES
@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (sparse([1, 2], [0, 1 << 40]), "indices are not all from 0 to 255"),
        (sparse([1, 2], [0, 256]), "indices are not all from 0 to 255"),
        (sparse([1, 2], [0, -1]), "indices are not all from 0 to 255"),
        (sparse([1, 2], [[0, 0], [1 << 20, 0]]), "invalid entry"),
        (sparse([1, 2], [[0, 0], [0, 64]]), "invalid entry"),
        (sparse([1], np.arange(200)), r"has values of the shape \[1\] at 200 places"),
        (
            sparse(short(TensorProto.FLOAT, 200), np.arange(200)),
            "the sparse tensor 'w' is wrong: .*reshape",
        ),
        (
            sparse(np.ones(200), short(TensorProto.INT64, 200)),
            "the sparse tensor 'w' is wrong: .*reshape",
        ),
        (
            sparse([1, 2], [0, 1], (1 << 20, 1 << 20)),
            "takes 4398046511104 bytes, expected 0 to 536870912",
        ),
        (sparse([1, 2], [0, 1], (-4, 64)), r"the shape \[-4, 64\] is impossible"),
        (sparse([1], numpy_helper.from_array(np.zeros(1, np.int8))), "not of the type int64"),
        (
            sparse(numpy_helper.from_array(np.array(["text"]), "w"), [0]),
            "element type 8 is not supported",
        ),
        (
            sparse([1], external(TensorProto.INT64, dims=[1], location="../w.bin")),
            "outside the model's folder",
        ),
    ],
    ids=range(13),
)
def test_sparse_tensors_that_lie(
    tmp_path: Path,
    place: Callable[[SparseTensorProto], ModelProto],
    tensor: SparseTensorProto,
    words: str,
) -> None:
    """onnxruntime 1.23 writes values wherever indices say, into its own heap; and copies more than
    there is.
    """
    (tmp_path / "w.bin").write_bytes(bytes(64))
    with pytest.raises(ModelError, match=words):
        load_model(written(tmp_path, place(tensor)))


@pytest.mark.pure
def test_all_sparse_tensors_of_a_file_share_one_allowance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of some hundred bytes would else take any memory."""
    monkeypatch.setattr("rankmesh.compiler.model_file.user_tensors.MAX_SPARSE", 1 << 20)
    half = sparse([1], [0], (1 << 10, 1 << 7))
    made = as_initializer(half)
    made.graph.sparse_initializer.extend([half, half])
    with pytest.raises(ModelError, match="takes 524288 bytes, expected 0 to 0"):
        load_model(written(tmp_path, made))


@pytest.mark.pure
def test_a_sparse_tensor_where_no_operator_has_one(tmp_path: Path) -> None:
    made = as_constant(sparse([1], [0]))
    made.graph.node[0].op_type = "Strange"
    with pytest.raises(
        ModelError, match="a node Strange has a sparse tensor as its attribute 'sparse_value'"
    ):
        load_model(written(tmp_path, made))


# Elements inside the file.


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (TensorProto(data_type=1, dims=[4], raw_data=bytes(15)), "it has 15 bytes, expected 16"),
        (TensorProto(data_type=1, dims=[4], raw_data=bytes(20)), "it has 20 bytes, expected 16"),
        (TensorProto(data_type=1, dims=[4], float_data=[1.0]), "float_data size"),
        (TensorProto(data_type=1, dims=[4], int64_data=[1] * 4), "float_data"),
        (TensorProto(data_type=1, dims=[4]), "one and only one value field"),
        (TensorProto(data_type=1, dims=[-4], float_data=[1.0]), "the shape .* is impossible"),
        (TensorProto(data_type=99, dims=[4], raw_data=bytes(16)), "99"),
    ],
)
@pytest.mark.parametrize("inside", [False, True], ids=["as_weight", "as_constant"])
def test_elements_that_do_not_fit_their_shape(
    tmp_path: Path, tensor: TensorProto, reason: str, inside: bool
) -> None:
    tensor.name = "w"
    constants, nodes = {"w": tensor}, [node("Add", "x w", "y")]
    if inside:
        constants, nodes = {}, [helper.make_node("Constant", [], ["w"], value=tensor), *nodes]
    path = written(tmp_path, model(nodes, {"x": [4]}, {"y": [4]}, constants=constants))
    with pytest.raises(ModelError, match=f"the tensor 'w' is corrupt: .*{reason}"):
        load_model(path)
