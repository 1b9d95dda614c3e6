"""Branches and loops that contain collectives, and states, as a program runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meetings import together
from onnx import GraphProto, ModelProto, TensorProto, helper, save
from onnx_models import collective, graph, loaded, model, node
from processes import rankmesh

from rankmesh.comm.errors import CollectiveMismatch, RankFailed, ShardMismatch
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.runtime.opening import open_program
from rankmesh.worker.runtime.program_spec import ProgramSpec
from rankmesh.worker.session.shape_inference import output_shapes

F32, I64 = np.float32, np.int64
ONE = np.arange(1, 5, dtype=F32)
BOOL, NUMBER = (bool, []), (I64, [])
Arrays = dict[str, np.ndarray]


def run(folder: Path, shards: list[ModelProto], calls: list[list[Arrays]]) -> list[list[Arrays]]:
    """What each rank gives for each call; `calls` has one list of inputs per rank."""
    for rank, shard in enumerate(shards):
        save(shard, str(folder / f"m{rank}.onnx"))

    def act(meeting: Any) -> list[Arrays]:
        program = open_program(
            ProgramSpec(str(folder / f"m{meeting.rank.rank}.onnx"), allow_equal_shards=True),
            meeting,
        )
        try:
            return [program.predict(inputs) for inputs in calls[meeting.rank.rank]]
        finally:
            program.close()

    return together(len(shards), act)


def everywhere(folder: Path, shard: ModelProto, *calls: Arrays, ranks: int = 2) -> list[Arrays]:
    """What two ranks with the same shard and inputs both give for each call."""
    results = run(folder, [shard] * ranks, [list(calls)] * ranks)
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            for name in mine:
                np.testing.assert_array_equal(mine[name], theirs[name])
    return results[0]


def body(*nodes: Any, outputs: Any, carried: Any = None) -> GraphProto:
    return graph(nodes, {"i": NUMBER, "c": BOOL, **(carried or {"v": [4]})}, outputs)


def looping(n: str = "n", go: str = "go") -> ModelProto:
    """y = ((x halved and summed) + x) so often; all the sums, stacked; until they exceed 100."""
    inner = body(
        node("Mul", "v half", "h"),
        collective("AllReduce", "h", "s"),
        node("Add", "s x", "w"),
        node("ReduceMax", "w", "m", keepdims=0),
        node("Less", "m limit", "d"),
        outputs={"d": BOOL, "w": [4], "s": [4]},
    )
    loop = helper.make_node("Loop", [n, go, "x"], ["y", "all"], name="loop", body=inner)
    return model(
        [loop],
        {"x": [4], "n": NUMBER, "go": BOOL},
        {"y": [4], "all": [None, 4]},
        constants={"half": np.array(0.5, F32), "limit": np.array(100, F32)},
    )


@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_a_loop_runs_as_often_as_its_count_says(tmp_path: Path, rounds: int) -> None:
    inputs = {"x": ONE, "n": np.array(rounds), "go": np.array(True)}
    for got in everywhere(tmp_path, looping(), inputs, inputs):
        np.testing.assert_array_equal(got["y"], ONE * (rounds + 1))
        assert got["all"].shape == (rounds, 4)
        for index, one in enumerate(got["all"]):
            np.testing.assert_array_equal(one, ONE * (index + 1))


def test_a_loop_ends_when_its_condition_does(tmp_path: Path) -> None:
    inputs = {"x": ONE, "n": np.array(1000), "go": np.array(True)}
    stopped = {**inputs, "go": np.array(False)}
    first, second, third = everywhere(tmp_path, looping(), inputs, stopped, inputs)
    np.testing.assert_array_equal(first["y"], ONE * 25)
    np.testing.assert_array_equal(second["y"], ONE)
    np.testing.assert_array_equal(third["all"], first["all"])
    assert second["all"].shape == (0, 4)


def test_a_loop_without_count_or_without_condition(tmp_path: Path) -> None:
    inputs = {"x": ONE, "n": np.array(3), "go": np.array(True)}
    (endless,) = everywhere(tmp_path, looping(n="", go="go"), inputs)
    np.testing.assert_array_equal(endless["y"], ONE * 25)
    (counted,) = everywhere(tmp_path, looping(go=""), inputs)
    np.testing.assert_array_equal(counted["y"], ONE * 4)


def test_loops_and_branches_inside_each_other(tmp_path: Path) -> None:
    then = graph([collective("AllReduce", "u", "t")], {}, {"t": [4]})
    other = graph([node("Sub", "u x", "t")], {}, {"t": [4]})
    inner = graph(
        [
            node("Add", "u x", "a"),
            node("Identity", "d", "e"),
            node("Equal", "j zero", "first"),
            node("If", "first", "b", then_branch=then, else_branch=other),
            node("Add", "a b", "o"),
        ],
        {"j": NUMBER, "d": BOOL, "u": [4]},
        {"e": BOOL, "o": [4]},
    )
    outer = body(
        node("Identity", "c", "k"),
        node("Loop", "m c v", "w", body=inner),
        outputs={"k": BOOL, "w": [4]},
    )
    shard = model(
        [node("Loop", "n go x", "y", body=outer)],
        {"x": [4], "n": NUMBER, "m": NUMBER},
        {"y": [4]},
        constants={"zero": np.array(0), "go": np.array(True)},
    )
    (got,) = everywhere(tmp_path, shard, {"x": ONE, "n": np.array(2), "m": np.array(3)})
    expected = ONE
    for _ in range(2):
        for j in range(3):
            expected = expected + ONE + (2 * expected if j == 0 else expected - ONE)
    np.testing.assert_array_equal(got["y"], expected)


def test_what_a_loop_carries_may_grow(tmp_path: Path) -> None:
    inner = body(
        node("Identity", "c", "d"),
        collective("AllGather", "v", "w"),
        outputs={"d": BOOL, "w": None},
        carried={"v": ["k"]},
    )
    shard = model(
        [node("Loop", "n go x", "y", body=inner)],
        {"x": [1], "n": NUMBER},
        {"y": ["k"]},
        constants={"go": np.array(True)},
    )
    for rounds, got in enumerate(
        everywhere(tmp_path, shard, *({"x": ONE[:1], "n": np.array(n)} for n in range(4)))
    ):
        np.testing.assert_array_equal(got["y"], np.ones(2**rounds, F32))


def test_results_of_branches_belong_to_the_caller(tmp_path: Path) -> None:
    """A branch that hands on an outer value, an input, a constant, or one value twice."""
    then = graph(
        [node("Identity", name, f"t{i}") for i, name in enumerate(("a", "x", "w", "a"))]
        + [collective("AllReduce", "a", "t4")],
        {},
        {f"t{i}": [4] for i in range(5)},
    )
    other = graph(
        [collective("AllReduce", "x", "e"), *(node("Identity", "e", f"e{i}") for i in range(5))],
        {},
        {f"e{i}": [4] for i in range(5)},
    )
    shard = model(
        [
            node("Neg", "x", "a"),
            node("If", "go", "p q r s t", then_branch=then, else_branch=other),
            node("Exp", "a", "b"),
            collective("AllReduce", "b", "z"),
        ],
        {"x": [4], "go": BOOL},
        {name: [4] for name in "pqrstz"},
        constants={"w": ONE * 7},
    )
    for rank in run(
        tmp_path,
        [shard] * 2,
        [[{"x": ONE, "go": np.array(True)}, {"x": ONE, "go": np.array(False)}]] * 2,
    ):
        arrays = [array for got in rank for array in got.values()]
        for index, array in enumerate(arrays):
            assert array.flags.writeable and not any(
                np.shares_memory(array, one) for one in arrays[index + 1 :]
            )
        expected = {
            "p": -ONE,
            "q": ONE,
            "r": ONE * 7,
            "s": -ONE,
            "t": -2 * ONE,
            "z": 2 * np.exp(-ONE),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(rank[0][name], value, rtol=1e-6)
        for name in "pqrst":
            np.testing.assert_array_equal(rank[1][name], 2 * ONE)


def test_a_weight_of_the_body_stays_in_its_file(tmp_path: Path) -> None:
    np.arange(4, dtype=F32).tofile(tmp_path / "w.bin")
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL
    )
    weight.external_data.add(key="location", value="w.bin")
    inner = body(
        node("Identity", "c", "d"),
        node("Add", "v w", "a"),
        collective("AllReduce", "a", "b"),
        outputs={"d": BOOL, "b": [4]},
    )
    shard = model(
        [node("Loop", "n go x", "y", body=inner)],
        {"x": [4]},
        {"y": [4]},
        constants={"n": np.array(2), "go": np.array(True), "w": weight},
    )
    (got,) = everywhere(tmp_path, shard, {"x": ONE})
    np.testing.assert_array_equal(got["y"], 2 * (2 * (ONE + np.arange(4)) + np.arange(4)))


def test_ranks_that_take_different_ways_are_told_so(tmp_path: Path) -> None:
    then = graph([collective("AllReduce", "x", "t")], {}, {"t": [4]})
    other = graph([node("Neg", "x", "e")], {}, {"e": [4]})
    shard = model(
        [
            node("If", "go", "a", then_branch=then, else_branch=other),
            collective("AllGather", "a", "y"),
        ],
        {"x": [4], "go": BOOL},
        {"y": [8]},
    )
    with pytest.raises(
        (CollectiveMismatch, RankFailed), match=r"(?s)AllReduce.*AllGather|AllGather.*AllReduce"
    ):
        run(tmp_path, [shard] * 2, [[{"x": ONE, "go": np.array(rank == 0)}] for rank in range(2)])


def test_shards_whose_collectives_lie_elsewhere_do_not_fit(tmp_path: Path) -> None:
    inner = body(
        node("Identity", "c", "d"), collective("AllReduce", "v", "w"), outputs={"d": BOOL, "w": [4]}
    )
    loop = model(
        [node("Loop", "n go x", "y", body=inner)],
        {"x": [4]},
        {"y": [4]},
        constants={"n": np.array(1), "go": np.array(True)},
    )
    plain = model([collective("AllReduce", "x", "y")], {"x": [4]}, {"y": [4]})
    with pytest.raises(
        ShardMismatch,
        match=r"AllReduce AllReduce w is in a Loop, AllReduce AllReduce y is outside\.",
    ):
        run(tmp_path, [loop, plain], [[{"x": ONE}]] * 2)


def test_loops_in_processes_of_their_own(tmp_path: Path) -> None:
    for rank in range(2):
        save(looping(), str(tmp_path / f"m{rank}.onnx"))
    sums = np.stack([ONE * (i + 1) for i in range(5)])
    np.savez(
        tmp_path / "io.npz",
        in_0=ONE,
        in_1=np.array(5),
        in_2=np.array(True),
        out_0=ONE * 6,
        out_1=sums,
    )
    done = rankmesh(
        "run",
        tmp_path / "m{rank}.onnx",
        "--device",
        "cpu",
        "--inputs",
        tmp_path / "io.npz",
        "--expect",
        tmp_path / "io.npz",
    )
    assert done.returncode == 0, done.stdout + done.stderr


# States.


def stateful(*nodes: Any, outputs: Any, **constants: np.ndarray) -> ModelProto:
    return model(nodes, {"x": [4]}, outputs, constants=constants)


def test_a_state_is_what_the_last_request_left(tmp_path: Path) -> None:
    shard = stateful(
        node("Add", "total x", "y"),
        collective("AllReduce", "y", "s"),
        collective("Assign", "s", "", state="total"),
        outputs={"y": [4], "s": [4]},
        total=np.zeros(4, F32),
    )
    first, second, third = everywhere(tmp_path, shard, {"x": ONE}, {"x": ONE}, {"x": ONE * 0})
    np.testing.assert_array_equal(first["s"], 2 * ONE)
    np.testing.assert_array_equal(second["y"], 3 * ONE)
    np.testing.assert_array_equal(third["y"], 6 * ONE)
    np.testing.assert_array_equal(first["y"], ONE)


def test_states_take_each_others_values_at_once(tmp_path: Path) -> None:
    shard = stateful(
        collective("Assign", "b", "", state="a"),
        collective("Assign", "a", "", state="b"),
        collective("Assign", "x", "", state="c"),
        node("Add", "a c", "y"),
        outputs={"y": [4], "a": [4], "b": [4]},
        a=ONE,
        b=ONE * 2,
        c=ONE * 0,
    )
    got = everywhere(tmp_path, shard, {"x": ONE}, {"x": ONE * 5}, {"x": ONE}, ranks=1)
    for index, (a, b, c) in enumerate([(1, 2, 0), (2, 1, 1), (1, 2, 5)]):
        np.testing.assert_array_equal(got[index]["a"], ONE * a)
        np.testing.assert_array_equal(got[index]["b"], ONE * b)
        np.testing.assert_array_equal(got[index]["y"], ONE * (a + c))


def test_one_value_for_two_states_and_an_output(tmp_path: Path) -> None:
    shard = stateful(
        node("Add", "a x", "s"),
        node("Add", "s b", "y"),
        collective("Assign", "s", "", state="a"),
        collective("Assign", "s", "", state="b"),
        outputs={"y": [4], "s": [4]},
        a=ONE,
        b=ONE,
    )
    got = everywhere(tmp_path, shard, {"x": ONE}, {"x": ONE}, ranks=1)
    np.testing.assert_array_equal(got[0]["s"], 2 * ONE)
    np.testing.assert_array_equal(got[1]["y"], 5 * ONE)
    got[0]["s"][:] = 99
    np.testing.assert_array_equal(got[1]["s"], 3 * ONE)


def test_a_state_of_the_file_is_read_in_place_and_never_written(tmp_path: Path) -> None:
    ONE.tofile(tmp_path / "w.bin")
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL
    )
    weight.external_data.add(key="location", value="w.bin")
    shard = model(
        [node("Add", "w x", "y"), collective("Assign", "y", "", state="w")],
        {"x": [4]},
        {"y": [4]},
        constants={"w": weight},
    )
    for _ in range(2):
        got = everywhere(tmp_path, shard, {"x": ONE}, {"x": ONE}, {"x": ONE}, ranks=1)
        np.testing.assert_array_equal(got[2]["y"], 4 * ONE)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "w.bin", F32), ONE)


def test_a_request_that_fails_leaves_the_states_as_they_were(tmp_path: Path) -> None:
    shard = model(
        [
            node("Add", "w x", "s"),
            collective("Assign", "s", "", state="w"),
            node("Gather", "s at", "y"),
        ],
        {"x": [4], "at": NUMBER},
        {"y": []},
        constants={"w": ONE * 0},
    )
    save(shard, str(tmp_path / "m0.onnx"))

    def act(meeting: Any) -> None:
        program = open_program(ProgramSpec(str(tmp_path / "m0.onnx")), meeting)
        assert program.predict({"x": ONE, "at": np.array(0)})["y"] == 1
        with pytest.raises(RankFailed):
            program.predict({"x": ONE, "at": np.array(9)})
        assert program.predict({"x": ONE, "at": np.array(0)})["y"] == 2
        program.close()

    together(1, act)


# Shapes.


def test_shapes_behind_branches_and_loops_are_those_that_both_ways_have() -> None:
    inner = body(
        node("Identity", "c", "d"),
        collective("AllReduce", "v", "w"),
        outputs={"d": BOOL, "w": ["n", 4]},
        carried={"v": ["n", 4]},
    )
    nodes = [node("Loop", "k go x", "a", body=inner), node("Unsqueeze", "x zero", "b")]
    plan = make_plan(
        loaded(
            nodes,
            {"x": ["n", 4]},
            {"a": ["n", 4], "b": [1, "n", 4]},
            constants={"k": np.array(2), "go": np.array(True), "zero": np.array([0])},
        ),
        0,
        1,
    )
    assert output_shapes(plan, [(3, 4)]) == [(-1, 4), (1, 3, 4)]
