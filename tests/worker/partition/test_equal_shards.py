"""Which shards count as one that several ranks were given, and which are only alike."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meetings import together
from onnx import save
from onnx_models import collective, graph, model, node

from rankmesh.comm.errors import ShardMismatch
from rankmesh.compiler.onnx_graph.collective_nodes import SLICING
from rankmesh.worker.partition.fingerprint import EqualShardPolicy
from rankmesh.worker.runtime.opening import open_program
from rankmesh.worker.runtime.program_spec import ProgramSpec

RANDOM = np.random.default_rng(7).random
W = RANDOM((4, 4), np.float32)
UNKNOWN, SAME, DIFFERENT = (
    EqualShardPolicy(),
    EqualShardPolicy(same_inputs=True),
    EqualShardPolicy(same_inputs=False),
)
Weights = Mapping[str, np.ndarray]


def refused(
    folder: Path,
    nodes: Sequence[Any],
    *ranks: Weights,
    asked: EqualShardPolicy = UNKNOWN,
    outputs: Sequence[int] = (4, 4),
    slicing: str = "",
) -> str:
    """What is said where ranks with these weights are refused; "" where they run."""
    for rank, constants in enumerate(ranks):
        if slicing:
            del nodes[-1].attribute[:]
            nodes[-1].attribute.extend(collective("AllReduce", "a", "y", position=rank).attribute)
        made = model(nodes, {"x": [4, 4]}, {"y": list(outputs)}, constants=constants)
        made.metadata_props.add(key=SLICING, value=slicing)
        save(made, str(folder / f"m{rank}.onnx"))

    def opened(meeting: Any) -> None:
        path = str(folder / f"m{meeting.rank.rank}.onnx")
        program = open_program(
            ProgramSpec(path, allow_equal_shards=asked.allowed, same_inputs=asked.same_inputs),
            meeting,
        )
        program.predict({"x": np.ones((4, 4), np.float32)})
        program.close()

    try:
        together(len(ranks), opened)
    except ShardMismatch as error:
        return str(error)
    return ""


def linear(kind: str = "AllReduce", **attributes: Any) -> list[Any]:
    return [node("MatMul", "x w", "a"), collective(kind, "a", "y", **attributes)]


def test_equal_weights_in_one_sum(tmp_path: Path) -> None:
    said = refused(tmp_path, linear(), {"w": W}, {"w": W.copy()})
    for part in (
        f"{tmp_path}/m0.onnx (rank 0) and {tmp_path}/m1.onnx (rank 1) are equal shards: "
        "AllReduce AllReduce y "
        "would add up the same part 2 times",
        "from the same weights (w)",
        "--allow-equal-shards",
        "RANKMESH_ALLOW_EQUAL_SHARDS=1",
    ):
        assert part in said, said


def test_shards_of_a_slicing_say_which_rank_they_are_for(tmp_path: Path) -> None:
    assert not refused(tmp_path, linear(), {"w": W}, {"w": W.copy()}, slicing="one")


@pytest.mark.parametrize(
    "kind, outputs, asked, expected",
    [
        ("ReduceScatter", (2, 4), UNKNOWN, True),
        ("Reduce", (4, 4), UNKNOWN, True),
        ("AllGather", (8, 4), SAME, True),
        ("AllToAll", (4, 4), SAME, True),
        ("AllGather", (8, 4), UNKNOWN, False),
        ("AllGather", (8, 4), DIFFERENT, False),
        ("Broadcast", (4, 4), SAME, False),
    ],
)
def test_collectives(
    kind: str, outputs: Any, asked: EqualShardPolicy, expected: bool, tmp_path: Path
) -> None:
    """Sums are refused, what is only put side by side where all ranks get the same inputs."""
    said = refused(tmp_path, linear(kind), {"w": W}, {"w": W}, asked=asked, outputs=outputs)
    assert bool(said) == expected, said


@pytest.mark.parametrize(
    "reduction, expected", [("sum", True), ("prod", True), ("max", False), ("min", False)]
)
def test_reductions(reduction: str, expected: bool, tmp_path: Path) -> None:
    assert (
        bool(refused(tmp_path, linear(reduction=reduction), {"w": W}, {"w": W}, asked=SAME))
        == expected
    )


def test_weights_gathered_as_they_are_need_no_inputs(tmp_path: Path) -> None:
    """Optimizer sharding: a weight's parts are joined, whatever inputs a rank gets."""
    nodes = [collective("AllGather", "w", "whole"), node("MatMul", "x whole", "y")]
    halves = W[:2], W[2:]
    assert not refused(tmp_path, nodes, *({"w": half} for half in halves), asked=SAME)
    assert "would join the same part 2 times" in refused(tmp_path, nodes, *({"w": halves[0]},) * 2)


def test_a_warning_where_only_the_user_knows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weights = {"w": W}
    for asked, count in ((UNKNOWN, 1), (DIFFERENT, 0), (EqualShardPolicy(allowed=True), 0)):
        caplog.clear()
        assert not refused(
            tmp_path, linear("AllGather"), weights, weights, asked=asked, outputs=(8, 4)
        )
        said = [
            record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
        ]
        assert len(said) == count, said
    assert not refused(
        tmp_path, linear("AllGather"), weights, {"w": RANDOM((4, 4), np.float32)}, outputs=(8, 4)
    )
    assert not caplog.records or caplog.records[-1].levelno < logging.WARNING


def test_allowed(tmp_path: Path) -> None:
    assert not refused(tmp_path, linear(), {"w": W}, {"w": W}, asked=EqualShardPolicy(allowed=True))


@pytest.mark.parametrize(
    "shards",
    [
        [{"w": W}, {"w": W + 1}],
        [{"w": np.ones((4, 4), np.float32)}] * 2,
        [{"w": np.zeros((4, 4), np.float32)}] * 2,
        [{"w": np.array(3, np.float32)}] * 2,
    ],
    ids=["different", "ones", "zeros", "a number"],
)
def test_what_does_not_count(shards: Sequence[Weights], tmp_path: Path) -> None:
    nodes = [node("Mul", "x w", "a"), collective("AllReduce", "a", "y")]
    assert not refused(tmp_path, nodes, *shards, asked=SAME)


def test_no_weights(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", "x shape", "a"),
        node("Relu", "a", "b"),
        collective("AllReduce", "b", "y"),
    ]
    shape = {"shape": np.array([2, 8])}
    assert not refused(tmp_path, nodes, shape, shape, asked=SAME, outputs=(2, 8))


def test_weights_after_a_sum_belong_to_no_part_of_it(tmp_path: Path) -> None:
    """A norm between two sums is the same on all ranks, and so may be the second sum's input."""
    nodes = [
        node("MatMul", "x w", "a"),
        collective("AllReduce", "a", "b"),
        node("Mul", "b norm", "c"),
        node("MatMul", "c v", "d"),
        collective("AllReduce", "d", "e"),
        node("Add", "e norm", "y"),
    ]
    norm = RANDOM(4, np.float32)
    shards = [
        {"w": RANDOM((4, 4), np.float32), "v": RANDOM((4, 4), np.float32), "norm": norm}
        for _ in range(2)
    ]
    assert not refused(tmp_path, nodes, *shards, asked=SAME)


def test_equal_weights_over_parts_of_a_sequence(tmp_path: Path) -> None:
    """Sequence parallelism: what ReduceScatter left on each rank differs, and runs through a norm
    that does not.
    """
    nodes = [
        node("MatMul", "x w", "a"),
        collective("ReduceScatter", "a", "b"),
        node("Mul", "b norm", "c"),
        collective("AllGather", "c", "d"),
        node("MatMul", "d v", "e"),
        collective("AllReduce", "e", "y"),
    ]
    norm = RANDOM(4, np.float32)
    shards = [
        {"w": RANDOM((4, 4), np.float32), "v": RANDOM((4, 4), np.float32), "norm": norm}
        for _ in range(2)
    ]
    assert not refused(tmp_path, nodes, *shards, asked=SAME)


def test_slices_by_rank(tmp_path: Path) -> None:
    """All of the weights on every rank, of which each takes its own part by constants in the
    graph."""
    nodes = [
        node("Slice", "x from to axis", "part"),
        node("Slice", "w from to rows", "rows_of_w"),
        node("MatMul", "part rows_of_w", "a"),
        collective("AllReduce", "a", "y"),
    ]
    shards = [
        {
            "w": W,
            "from": np.array([2 * rank]),
            "to": np.array([2 * rank + 2]),
            "axis": np.array([1]),
            "rows": np.array([0]),
        }
        for rank in range(2)
    ]
    assert not refused(tmp_path, nodes, *shards, asked=SAME)
    assert refused(tmp_path, nodes, shards[0], shards[0])


def test_two_of_four_members(tmp_path: Path) -> None:
    others = [{"w": RANDOM((4, 4), np.float32)} for _ in range(3)]
    said = refused(tmp_path, linear(), others[0], others[1], others[2], others[1])
    assert "m1.onnx (rank 1)" in said and "m3.onnx (rank 3)" in said and "2 times" in said
    assert "(rank 0)" not in said and "(rank 2)" not in said


def test_equal_ranks_of_different_groups(tmp_path: Path) -> None:
    """Data parallelism around tensor parallelism: groups of tensor parallel ranks have the same
    shards.
    """
    parts = [{"w": RANDOM((4, 4), np.float32)} for _ in range(2)]
    for rank in range(4):
        nodes = linear(group=f"tp{rank // 2}", ranks=[rank // 2 * 2, rank // 2 * 2 + 1])
        save(
            model(nodes, {"x": [4, 4]}, {"y": [4, 4]}, constants=parts[rank % 2]),
            str(tmp_path / f"m{rank}.onnx"),
        )
    together(
        4,
        lambda meeting: open_program(
            ProgramSpec(str(tmp_path / f"m{meeting.rank.rank}.onnx"), same_inputs=True), meeting
        ).close(),
    )


def test_a_difference_between_samples_is_found_before_a_refusal(tmp_path: Path) -> None:
    weights = RANDOM((1 << 14, 4), np.float32)
    other = weights.copy()
    other[3000, 1] += (
        1  # between two samples, as the second shard below is refused for none of its own
    )
    nodes = [
        node("MatMul", "v w", "a"),
        node("MatMul", "x a", "b"),
        collective("AllReduce", "b", "y"),
    ]
    row = RANDOM((4, 1 << 14), np.float32)
    assert refused(tmp_path, nodes, {"w": weights, "v": row}, {"w": weights, "v": row})
    assert not refused(tmp_path, nodes, {"w": weights, "v": row}, {"w": other, "v": row})
    third = {"w": weights + 1, "v": row}
    said = refused(tmp_path, nodes, {"w": weights, "v": row}, {"w": other, "v": row}, third, third)
    assert "(rank 2)" in said and "(rank 3)" in said and "(rank 0)" not in said


def test_names_do_not_count(tmp_path: Path) -> None:
    for rank, (weight, value) in enumerate((("w", "a"), ("v", "b"))):
        nodes = [node("MatMul", f"x {weight}", value), collective("AllReduce", value, "y")]
        save(
            model(nodes, {"x": [4, 4]}, {"y": [4, 4]}, constants={weight: W}),
            str(tmp_path / f"m{rank}.onnx"),
        )
    with pytest.raises(ShardMismatch, match="are equal shards"):
        together(
            2,
            lambda meeting: open_program(
                ProgramSpec(str(tmp_path / f"m{meeting.rank.rank}.onnx")), meeting
            ),
        )


def test_random_numbers_differ(tmp_path: Path) -> None:
    nodes = [
        node("RandomUniformLike", "x", "noise"),
        node("Mul", "noise w", "a"),
        collective("AllReduce", "a", "y"),
    ]
    assert not refused(tmp_path, nodes, {"w": W}, {"w": W}, asked=SAME)


def looped(*inner: Any) -> list[Any]:
    """Two rounds of a body from v to b, which sees the weights around it."""
    body = graph(
        [node("Identity", "c", "d"), *inner],
        {"i": (np.int64, []), "c": (np.bool_, []), "v": [4, 4]},
        {"d": (np.bool_, []), "b": [4, 4]},
    )
    return [node("Loop", "n go x", "y", body=body)]


LOOP = {"n": np.array(2), "go": np.array(True)}


def test_a_sum_in_a_loop(tmp_path: Path) -> None:
    nodes = looped(node("MatMul", "v w", "a"), collective("AllReduce", "a", "b"))
    assert not refused(tmp_path, nodes, {**LOOP, "w": W}, {**LOOP, "w": W + 1})
    assert "AllReduce b would add up" in refused(
        tmp_path, nodes, {**LOOP, "w": W}, {**LOOP, "w": W}
    )


def test_a_round_of_a_loop_may_leave_each_rank_its_own(tmp_path: Path) -> None:
    """The rounds' results differ behind the sum, and the next round computes with them by equal
    weights.
    """
    nodes = looped(
        node("MatMul", "v w", "a"), collective("AllReduce", "a", "s"), node("Mul", "s own", "b")
    )
    shards = [{**LOOP, "w": W, "own": np.array(number, np.float32)} for number in (2, 3)]
    assert not refused(tmp_path, nodes, *shards)
    assert refused(tmp_path, nodes, shards[1], shards[1])


def test_a_state_may_leave_each_rank_its_own(tmp_path: Path) -> None:
    nodes = [
        node("Add", "x kept", "a"),
        node("MatMul", "a w", "b"),
        collective("AllReduce", "b", "y"),
        node("Mul", "y own", "later"),
        collective("Assign", "later", "", state="kept"),
    ]
    shards = [{"w": W, "kept": W, "own": np.array(number, np.float32)} for number in (2, 3)]
    assert not refused(tmp_path, nodes, *shards)
    assert refused(tmp_path, nodes, shards[1], shards[1])


def test_branches_and_bodies_without_collectives(tmp_path: Path) -> None:
    def branch(kind: str) -> Any:
        return graph([node(kind, "x w", kind)], {}, {kind: [4, 4]})

    nodes = [
        node("If", "go", "a", then_branch=branch("MatMul"), else_branch=branch("Add")),
        collective("AllReduce", "a", "y"),
    ]
    go = {"go": np.array(True)}
    assert not refused(tmp_path, nodes, {**go, "w": W}, {**go, "w": W + 1})
    assert "(w)" in refused(tmp_path, nodes, {**go, "w": W}, {**go, "w": W})
