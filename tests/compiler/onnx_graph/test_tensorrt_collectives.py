"""TensorRT's nodes DistCollective: read as collectives, run on two ranks, and written.

tests/data/tensorrt has an MLP and its shards, as `polygraphy multi-device shard --one-shot
--parallelism TP --nb-rank 2` of polygraphy 0.53.6 wrote them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import AttributeProto, NodeProto, helper
from onnx_models import collective, graph, model, node
from processes import rankmesh

from rankmesh import ModelError
from rankmesh.compiler.model_file.normal_form.normal_form import normalise
from rankmesh.compiler.onnx_graph.collective_nodes import call_of
from rankmesh.compiler.onnx_graph.tensorrt_collectives import from_tensorrt, to_tensorrt

POLYGRAPHY = Path(__file__).parents[2] / "data" / "tensorrt"
TOLERANCE = 1e-5


def dist(source: str, target: str, operation: str, **stated: Any) -> NodeProto:
    """A node as polygraphy writes it for two ranks; `stated` changes its attributes."""
    attributes = {
        "collective_operation": operation,
        "reduce_op": "none",
        "root": -1,
        "nb_rank": 2,
        "group_size": len(stated.get("groups", ())),
        **stated,
    }
    groups = attributes.pop("groups", [])
    made = helper.make_node("DistCollective", [source], [target], name=target, **attributes)
    made.attribute.append(helper.make_attribute("groups", groups, attr_type=AttributeProto.INTS))
    return made


def run(folder: Path, shards: list[onnx.ModelProto], x: np.ndarray) -> list[list[np.ndarray]]:
    """The outputs of each rank."""
    for rank, shard in enumerate(shards):
        onnx.save(shard, str(folder / f"m{rank}.onnx"))
    np.savez(folder / "x.npz", x=x)
    files = ("--inputs", folder / "x.npz", "--save", folder / "y{rank}.npz")
    done = rankmesh("run", folder / "m{rank}.onnx", *files, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    return [list(np.load(folder / f"y{rank}.npz").values()) for rank in range(len(shards))]


def test_shards_of_polygraphy_give_what_the_whole_model_gives(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 4, 16)).astype(np.float32)
    whole = ort.InferenceSession(
        POLYGRAPHY / "gated_mlp.onnx", providers=["CPUExecutionProvider"]
    ).run(None, {"x": x})
    np.savez(tmp_path / "case.npz", x=x, out_0=whole[0])
    case = ("--inputs", tmp_path / "case.npz", "--expect", tmp_path / "case.npz")
    shards = POLYGRAPHY / "gated_mlp_tp2_rank{rank}.onnx"
    done = rankmesh("run", shards, *case, "--rtol", TOLERANCE, "--atol", TOLERANCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK: 2 outputs of 2 ranks match" in done.stdout


OPERATIONS: dict[str, dict[str, Any]] = {
    "total": {"operation": "all_reduce", "reduce_op": "sum"},
    "upper": {"operation": "ALL_REDUCE", "reduce_op": "MAX"},
    "mean": {"operation": "ALL_REDUCE", "reduce_op": "AVG"},
    "part": {"operation": "reduce_scatter", "reduce_op": "avg"},
    "gathered": {"operation": "all_gather", "groups": [1, 0]},
    "turned": {"operation": "all_to_all"},
    "root": {"operation": "broadcast", "root": 1, "groups": [0, 1]},
    "dealt": {"operation": "SCATTER", "reduce_op": "NONE", "root": 1},
}


def expected(tensors: list[np.ndarray], rank: int) -> dict[str, np.ndarray]:
    """What OPERATIONS give on one rank."""
    first, second = tensors
    halves = [np.split(one, 2) for one in tensors]
    return {
        "total": first + second,
        "upper": np.maximum(first, second),
        "mean": (first + second) / 2,
        "part": (halves[0][rank] + halves[1][rank]) / 2,
        "gathered": np.concatenate([second, first]),
        "turned": np.concatenate([halves[0][rank], halves[1][rank]]),
        "root": second,
        "dealt": halves[1][rank],
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_operations_run_on_two_ranks(tmp_path: Path, dtype: type[np.floating[Any]]) -> None:
    factors = [np.arange(1, 5, dtype=dtype)[:, None], np.arange(7, 3, -1, dtype=dtype)[:, None]]
    shards = [
        model(
            [
                node("Mul", "x factor", "v"),
                *(dist("v", name, **stated) for name, stated in OPERATIONS.items()),
            ],
            {"x": (dtype, (4, 3))},
            {name: (dtype, None) for name in OPERATIONS},
            constants={"factor": factor},
        )
        for factor in factors
    ]
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(dtype)
    for rank, found in enumerate(run(tmp_path, shards, x)):
        wanted = expected([x * factor for factor in factors], rank)
        for got, (name, value) in zip(found, wanted.items(), strict=True):
            assert got.shape == value.shape and got.dtype == dtype, name
            largest = TOLERANCE if dtype is np.float32 else 1e-3
            assert np.abs(got - value).max() <= largest * np.abs(value).max(), name


def test_collectives_at_the_end_go_where_their_inputs_are() -> None:
    """polygraphy puts those of all layers there. In files that are in order nothing moves."""
    first, second = dist("a", "b", "all_reduce", reduce_op="sum"), dist("b", "c", "all_gather")
    sorted_nodes = [node("Relu", "x", "a"), first, second, node("Neg", "c", "y")]
    unsorted = [sorted_nodes[0], sorted_nodes[3], second, first]
    for nodes in (sorted_nodes, unsorted):
        made = model(nodes, {"x": [4]}, {"y": None})
        normalise(made, "m.onnx")
        from_tensorrt(made, "m.onnx")
        assert [one.output[0] for one in made.graph.node] == ["a", "b", "c", "y"]
    late = [node("Relu", "x", "a"), node("Neg", "a", "y"), first]
    made = model(late, {"x": [4]}, {"y": None})
    normalise(made, "m.onnx")
    from_tensorrt(made, "m.onnx")
    assert [one.output[0] for one in made.graph.node] == ["a", "y", "b"]


def converted(*nodes: NodeProto, opset: int = 21) -> list[NodeProto]:
    """The nodes that a model has once its nodes of TensorRT are replaced."""
    made = model(nodes, {"x": [4]}, {nodes[-1].output[0]: None})
    made.opset_import[0].version = opset
    del made.opset_import[1]
    from_tensorrt(made, "m.onnx")
    assert [(one.domain, one.version) for one in made.opset_import] == [
        ("", opset),
        ("rankmesh", 1),
    ]
    return list(made.graph.node)


@pytest.mark.pure
def test_a_group_of_an_unstated_number_of_ranks_stays_open() -> None:
    (made,) = converted(dist("x", "y", "all_reduce", reduce_op="sum", nb_rank=1))
    assert call_of(made, 0, 2, 3, "m.onnx").group.ranks == (0, 1, 2)


@pytest.mark.pure
def test_nodes_in_branches_are_replaced() -> None:
    branch = graph([dist("x", "y", "all_reduce", reduce_op="avg")], outputs={"y": [4]})
    other = graph([node("Identity", "x", "y")], outputs={"y": [4]})
    chosen = helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=other)
    (made,) = converted(chosen)
    (inside,) = [one.g for one in made.attribute if one.name == "then_branch"]
    kinds = [(one.domain, one.op_type) for one in inside.node]
    assert kinds == [("rankmesh", "AllReduce"), ("", "Constant"), ("", "CastLike"), ("", "Div")]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("operation", "stated", "message"),
    [
        ("ring", {}, "the collective_operation is 'ring', expected all_reduce, all_gather"),
        ("all_reduce", {}, "has the reduce_op 'none' with all_reduce, expected sum, max"),
        ("all_gather", {"reduce_op": "sum"}, "has the reduce_op 'sum' with all_gather"),
        ("broadcast", {}, "has the root -1, expected a rank"),
        ("broadcast", {"root": 0, "groups": [1, 2]}, "root 0, expected one of the ranks [1, 2]"),
        ("all_gather", {"groups": [0, 1], "group_size": 3}, "group_size 3, expected 2"),
        ("all_gather", {"groups": [0, 1], "nb_rank": 4}, "the nb_rank 4, expected 2"),
        ("all_reduce", {"reduce_op": "avg", "nb_rank": 1}, "an unknown number of ranks"),
        ("all_reduce", {"ring": 1}, "the attribute 'ring' is unknown"),
        ("all_reduce", {"root": "0"}, "the attribute 'root' is unknown or of another type"),
    ],
)
def test_wrong_nodes_are_refused(operation: str, stated: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as found:
        converted(dist("x", "y", operation, **stated))
    assert message in str(found.value)
    assert str(found.value).startswith("m.onnx: node y (DistCollective)")


@pytest.mark.pure
def test_an_average_needs_the_opset_that_has_its_nodes() -> None:
    with pytest.raises(ModelError, match="needs opset 15 or newer, and the file has 14"):
        converted(dist("x", "y", "all_reduce", reduce_op="avg"), opset=14)


COLLECTIVES = [
    collective("AllReduce", "x", "a", group="world", reduction="max", size=4),
    collective("AllReduce", "x", "b", group="pair", ranks=[3, 1]),
    collective("AllGather", "x", "c", group="pair", ranks=[1, 3], position=0),
    collective("ReduceScatter", "x", "d", group="world", reduction="prod"),
    collective("AllToAll", "x", "e", group="world"),
    collective("Broadcast", "x", "f", group="pair", ranks=[1, 3], root=1),
    collective("Reduce", "x", "g", group="world", root=2),
    collective("CollectiveGather", "x", "h", group="world", root=3),
    collective("CollectiveScatter", "x", "i", group="all", ranks=[0, 1, 2, 3], root=1),
]


@pytest.mark.pure
def test_written_nodes_mean_the_same_when_read_again() -> None:
    made = model(COLLECTIVES, {"x": [4]}, {"a": None})
    to_tensorrt(made, 1, 4, "m.onnx")
    assert {(one.domain, one.op_type) for one in made.graph.node} == {("", "DistCollective")}
    assert [one.domain for one in made.opset_import] == [""]
    from_tensorrt(made, "m.onnx")
    for index, (before, after) in enumerate(zip(COLLECTIVES, made.graph.node, strict=True)):
        old, new = (call_of(one, index, 1, 4, "m.onnx") for one in (before, after))
        assert (old.kind, old.reduction, old.root, old.group.ranks, old.node) == (
            new.kind,
            new.reduction,
            new.root,
            new.group.ranks,
            new.node,
        )


@pytest.mark.pure
def test_a_written_node_has_the_attributes_that_polygraphy_writes() -> None:
    made = model([collective("AllReduce", "x", "y", group="world")], {"x": [4]}, {"y": None})
    to_tensorrt(made, 0, 2, "m.onnx")
    theirs = onnx.load(POLYGRAPHY / "gated_mlp_tp2_rank0.onnx", load_external_data=False)
    (node_of_theirs,) = [one for one in theirs.graph.node if one.op_type == "DistCollective"]
    ours = {one.name: one for one in made.graph.node[0].attribute}
    assert ours == {one.name: one for one in node_of_theirs.attribute}


@pytest.mark.pure
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (collective("Send", "x", "", to=1), "has no Send of 1 tensors"),
        (collective("Broadcast", "x x", "y z", root=0), "has no Broadcast of 2 tensors"),
        (collective("AllGather", "x", "y", ranks=[1, 0]), "its group is ranks [1, 0]"),
        (collective("Assign", "x", "", state="s"), "keeps a state"),
    ],
)
def test_collectives_that_tensorrt_lacks_are_refused(made: NodeProto, message: str) -> None:
    with pytest.raises(ModelError) as found:
        to_tensorrt(model([made], {"x": [4]}), 0, 2, "m.onnx")
    assert message in str(found.value)
