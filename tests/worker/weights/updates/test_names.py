"""Names, shapes and types of inputs and outputs as the user sees them, the same in every export of
a network.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankmesh import Context, DataType, Model, ModelType
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto as MindIR

DATA = Path(__file__).parents[3] / "data" / "names"  # made by tests/oracle/names.py
F32, I32 = DataType.FLOAT32, DataType.INT32


def opened(path: Path) -> Model:
    context, model = Context(), Model()
    context.cpu.thread_num = 1
    model.build_from_file(str(path), ModelType.MINDIR, context)
    return model


def described(model: Model) -> tuple[list[tuple[str, list[int], DataType | None]], ...]:
    return tuple(
        [(t.name, t.shape, t.dtype) for t in tensors]
        for tensors in (model.get_inputs(), model.get_outputs())
    )


@pytest.mark.parametrize("which", ["first", "second"])
def test_names_shapes_and_types_are_those_of_the_network(which: str):
    assert described(opened(DATA / f"heads_{which}.mindir")) == (
        [("tokens", [-1, 6], F32), ("mask", [-1, 1], F32), ("unused", [2], I32), ("bias", [], F32)],
        [(f"output_{i}", [-1, columns], F32) for i, columns in enumerate((3, 2, 1, 6))],
    )
    assert described(opened(DATA / f"blocks_{which}.mindir")) == (
        [("x", [2, 4], F32)],
        [("output_0", [2, 4], F32)],
    )


@pytest.mark.parametrize("name", ["heads", "blocks"])
def test_two_exports_of_a_network_differ_in_their_files_only(name: str):
    """The files' own names of graphs and nodes differ; names, order and results are the same."""
    files = [DATA / f"{name}_{which}.mindir" for which in ("first", "second")]
    keys = [{i.name for i in MindIR.FromString(file.read_bytes()).graph.input} for file in files]
    assert keys[0].isdisjoint(keys[1])
    first, second = map(opened, files)
    assert described(first) == described(second)
    inputs = [
        np.full([3 if dim < 0 else dim for dim in t.shape], 0.5, t.get_data_to_numpy().dtype)
        for t in first.get_inputs()
    ]
    for one, other in zip(first.predict(inputs), second.predict(inputs), strict=True):
        assert (one.name, one.shape, one.dtype) == (other.name, other.shape, other.dtype)
        np.testing.assert_array_equal(one.get_data_to_numpy(), other.get_data_to_numpy())


def sums(keys: list[str]) -> MindIR:
    """The sum of two inputs with these keys, returned with them."""
    file = MindIR(ir_version="1.1", producer_name="tests", model_version="1", little_endian=True)
    file.graph.name = "g"
    for name, kind in (("Add:1", "Add"), ("MakeTuple:2", "MakeTuple")):
        file.primitives.add(name=name, op_type=kind, prim_type=1)
    for key in keys:
        file.graph.input.add(name=key).tensor.add(dims=[2], data_type=1)
    add = file.graph.node.add(
        op_type="REF::Add:1", input=keys, output=["s"], domain="Default/Add-op0"
    )
    add.attribute.add(name="shape", type=19).tensors.add(dims=[2], data_type=1)
    together = file.graph.node.add(op_type="REF::MakeTuple:2", input=["s", *keys], output=["t"])
    output = file.graph.output.add(name="t").attr_info
    for kind in (together.attribute.add(name="shape"), output):
        kind.type = 20
        for _ in range(3):
            kind.values.add(type=19).tensors.add(dims=[2], data_type=1)
    return file


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["g:a", "g:b"], ["a", "b"]),
        (["g:x:0", "g:x:1"], ["x:0", "x:1"]),  # cut at the first colon only
        (["g:x", "h:x"], ["x", "x_2"]),  # two inputs never share a name
        (["a", "b"], ["a", "b"]),  # no graph before it
        (["g:Add", "g:output_0"], ["Add", "output_0"]),  # names that we would give ourselves
        (["g:größe", "g:Default/Add-op0"], ["größe", "Default/Add-op0"]),
    ],
)
def test_inputs_keep_their_names_whatever_they_are(
    keys: list[str], names: list[str], tmp_path: Path
):
    path = tmp_path / "m.mindir"
    path.write_bytes(sums(keys).SerializeToString())
    model = opened(path)
    assert [t.name for t in model.get_inputs()] == names
    outputs = [t.name for t in model.get_outputs()]
    assert len({*names, *outputs}) == 5
    one, two = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    results = model.predict([one, two])
    assert [r.name for r in results] == outputs
    for result, expected in zip(results, (one + two, one, two), strict=True):
        np.testing.assert_array_equal(result.get_data_to_numpy(), expected)
    assert model.get_input_by_tensor_name(names[1]).name == names[1]
