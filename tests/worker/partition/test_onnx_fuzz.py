"""Bad ONNX files of every kind: one clear error, in little time; and never another one."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_changes import change
from onnx import ModelProto, SparseTensorProto, TensorProto, helper, numpy_helper
from onnx_models import collective, graph, model, node

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.mindir.wire import write_varint
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.launch.inspection.inspect import describe
from rankmesh.worker.partition.cut import make_plan

X, Y = {"x": [4]}, {"y": [4]}
W, NO, THREE = np.ones(4, np.float32), np.array(False), np.array(3)
FUZZ = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


def branch(kind: str) -> object:
    made = collective(kind, "x", "r") if kind == "AllReduce" else node(kind, "x", "r")
    return graph([made], {}, {"r": [4]})


def sparse() -> ModelProto:
    made = model([node("Add", "x s", "y")], X, Y)
    made.graph.sparse_initializer.append(
        SparseTensorProto(
            values=numpy_helper.from_array(W[:2], "s"),
            indices=numpy_helper.from_array(np.array([0, 3])),
            dims=[4],
        )
    )
    return made


def calling() -> ModelProto:
    opsets = [
        helper.make_opsetid("", 21),
        helper.make_opsetid("rankmesh", 1),
        helper.make_opsetid("own", 1),
    ]
    inner = helper.make_function(
        "own", "f", ["a"], ["b"], [collective("AllReduce", "a", "b")], opsets
    )
    outer = helper.make_function(
        "own", "g", ["a"], ["b"], [helper.make_node("f", ["a"], ["b"], domain="own")], opsets
    )
    return model(
        [helper.make_node("g", ["x"], ["y"], domain="own")], X, Y, functions=[inner, outer]
    )


SEEDS = [
    model(
        [
            node("Neg", "x", "a"),
            collective("AllGather", "a", "b", size=2),
            collective("ReduceScatter", "b", "y"),
        ],
        X,
        Y,
        {"b": [8]},
        {"w": W, "large": np.ones(2048, np.float32)},
    ),
    model(
        [
            node("If", "c", "q", then_branch=branch("AllReduce"), else_branch=branch("Neg")),
            node("Abs", "q", "y"),
        ],
        X,
        Y,
        constants={"c": NO},
    ),
    model(
        [
            collective("Send", "x", "", to=1, tag=3),
            collective("Receive", "", "y", source=1, shape=[4], dtype=1),
        ],
        X,
        Y,
    ),
    model(
        [
            collective("Broadcast", "x w", "a b", ranks=[0, 1], root=1),
            node("Add", "a b", "y"),
            collective("Assign", "y", "", state="v"),
        ],
        X,
        Y,
        constants={"w": W, "v": W},
    ),
    model(
        [node("Reshape", "x s", "r"), node("MatMul", "r r", "y")],
        {"x": ["n"]},
        {"y": None},
        constants={"s": np.array([2, -1])},
    ),
    sparse(),
    calling(),
]


def survives(path: Path, content: bytes) -> None:
    """Planning and describing give a plan, or a ModelError that names the file."""
    path.write_bytes(content)
    for read in (lambda: make_plan(load_model(str(path)), 0, 2), lambda: describe(str(path))):
        try:
            read()
        except ModelError as error:
            assert str(path) in str(error) and len(str(error)) < 20_000


@FUZZ
@given(st.sampled_from(SEEDS), st.integers(0, 2**32), st.integers(1, 4))
def test_models_with_fields_changed(
    tmp_path: Path, seed: ModelProto, number: int, count: int
) -> None:
    changed = ModelProto()
    changed.CopyFrom(seed)
    try:
        change(changed, Random(number), count)
    except ValueError:  # a number that is none of an enumeration
        return
    survives(tmp_path / "m.onnx", changed.SerializeToString())


@FUZZ
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_models_with_bytes_changed(
    tmp_path: Path, seed: ModelProto, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(seed.SerializeToString())
    for place, value in changes:
        content[place % len(content)] = value
    survives(tmp_path / "m.onnx", bytes(content))


@pytest.mark.parametrize(
    ("kind", "given"), [("If", "then_branch"), ("If", "else_branch"), ("Loop", "")]
)
def test_control_flow_without_its_graphs(tmp_path: Path, kind: str, given: str) -> None:
    graphs = {given: branch("AllReduce")} if given else {}
    made = model(
        [node(kind, "c" if kind == "If" else "n c x", "y", **graphs)],
        X,
        Y,
        constants={"c": NO, "n": THREE},
    )
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match="is corrupt: Required attribute"):
        make_plan(load_model(str(tmp_path / "m.onnx")), 0, 1)


def test_many_branches_of_one_name_take_little_time(tmp_path: Path) -> None:
    """Each gets a name of its own at once, not by trying all that were given before."""
    nodes = [
        node("If", "c", f"q{at}", then_branch=branch("AllReduce"), else_branch=branch("AllReduce"))
        for at in range(1500)
    ]
    made = model([*nodes, node("Neg", "q7", "y")], X, Y, constants={"c": NO})
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    plan = make_plan(load_model(str(tmp_path / "m.onnx")), 0, 1)
    assert (
        len(plan.steps) == 1501
        and len({name for step in plan.steps for name in step.outputs}) == 1501
    )


@pytest.mark.parametrize("count", [33, 300_000])
def test_dimensions_are_not_multiplied_where_there_are_too_many(tmp_path: Path, count: int) -> None:
    weight = TensorProto(name="w", data_type=1, dims=[1 << 62] * count, raw_data=bytes(8192))
    made = model([node("Add", "x w", "y")], X, Y, constants={"w": weight})
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(
        ModelError, match=f"'w' is corrupt: {count} dimensions, expected at most 32"
    ):
        make_plan(load_model(str(tmp_path / "m.onnx")), 0, 1)


@pytest.mark.parametrize("head", [b"\x08\x0a", b"\x0a\x01a"], ids=["onnx", "mindir"])
def test_gigabytes_that_are_no_weights_are_not_copied(tmp_path: Path, head: bytes) -> None:
    """A file that takes no room on its disk: one text of three gigabytes."""
    content = head + b"\x32" + write_varint(3 << 30)
    with open(tmp_path / "m", "wb") as file:
        file.write(content)
        file.truncate(len(content) + (3 << 30))
    tracemalloc.start()
    try:
        with pytest.raises(
            ModelError, match="3221225478 bytes that are no weights, more than protobuf reads"
        ):
            load_model(str(tmp_path / "m"))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
