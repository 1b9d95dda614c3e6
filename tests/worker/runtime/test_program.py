from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meetings import meetings, together
from onnx import TensorProto, helper, numpy_helper, save
from onnx_models import BF16, collective, graph, model, node

from rankmesh.comm.errors import InputError, ModelError, RankFailed, ShardMismatch
from rankmesh.comm.job_memory.progress import Stage
from rankmesh.worker.runtime.opening import open_program
from rankmesh.worker.runtime.program import Program
from rankmesh.worker.runtime.program_spec import ProgramSpec

F32 = np.float32
X, Y = {"x": [4]}, {"y": [4]}
ONE = np.arange(4, dtype=F32)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Open a model as the one rank of its world."""
    programs = []
    with meetings() as ranks:

        def open_one(
            nodes: Sequence[Any], inputs: Any = None, outputs: Any = None, **more: Any
        ) -> Program:
            path = tmp_path / "m.onnx"
            save(model(nodes, inputs or X, outputs or Y, **more), str(path))
            programs.append(open_program(ProgramSpec(str(path)), ranks[0]))
            return programs[-1]

        yield open_one
        for program in programs:
            program.close()


def run_all(
    folder: Path, shards: Sequence[Any], inputs: Sequence[Mapping[str, np.ndarray]]
) -> list[dict[str, np.ndarray]]:
    """What each rank of a job gives; the ranks are threads."""
    for rank, shard in enumerate(shards):
        save(shard, str(folder / f"m{rank}.onnx"))

    def act(meeting: Any) -> dict[str, np.ndarray]:
        rank = meeting.rank.rank
        program = open_program(ProgramSpec(str(folder / f"m{rank}.onnx")), meeting)
        try:
            program.predict(inputs[rank])
            return program.predict(inputs[rank])
        finally:
            program.close()

    return together(len(shards), act)


# What comes out.


def test_segments_and_collectives_one_after_the_other(opened: Callable[..., Program]) -> None:
    program = opened(
        [
            node("Add", "x w", "a"),
            collective("AllReduce", "a", "b"),
            node("Mul", "b a", "c"),
            collective("AllGather", "c", "d"),
            node("Neg", "d", "y"),
        ],
        constants={"w": np.ones(4, F32)},
        known={name: [4] for name in "abcd"},
    )
    for x in (ONE, ONE + 5):
        np.testing.assert_array_equal(program.predict({"x": x})["y"], -((x + 1) ** 2))
    assert program.collective_seconds > 0


def test_outputs_come_in_the_models_order_and_belong_to_the_caller(
    opened: Callable[..., Program],
) -> None:
    program = opened(
        [
            node("Neg", "x", "a"),
            collective("AllReduce", "a", "b"),
            node("Identity", "b", "c"),
            node("Abs", "b", "d"),
        ],
        outputs={"d": [4], "x": [4], "w": [4], "b": [4], "c": [4], "a": [4]},
        constants={"w": ONE * 3},
    )
    x = ONE.copy()
    first = program.predict({"x": x})
    assert list(first) == ["d", "x", "w", "b", "c", "a"]
    kept = {name: array.copy() for name, array in first.items()}
    for name, expected in {"d": x, "x": x, "w": x * 3, "b": -x, "c": -x, "a": -x}.items():
        np.testing.assert_array_equal(first[name], expected)
    second = program.predict({"x": x + 7})
    x[:] = -1
    arrays = [
        *first.values(),
        *second.values(),
        x,
        *program._constants.values(),
        *program._buffers.values(),
    ]
    for i, array in enumerate(arrays[:12]):
        assert array.flags.writeable and array.flags.c_contiguous
        assert not [other for other in arrays[i + 1 :] if np.shares_memory(array, other)]
    for name in first:
        np.testing.assert_array_equal(first[name], kept[name])
        first[name][:] = 99
    third = program.predict({"x": kept["x"]})
    for name in first:
        np.testing.assert_array_equal(third[name], kept[name])


def test_unknown_dimensions_before_and_after_a_collective(opened: Callable[..., Program]) -> None:
    program = opened(
        [
            node("NonZero", "x", "i"),
            node("Neg", "x", "n"),
            collective("AllReduce", "n", "r"),
            collective("AllGather", "i", "g"),
            node("Gather", "r g", "y"),
        ],
        {"x": ["n"]},
        {"y": None, "r": ["n"], "g": (np.int64, [1, None])},
    )
    for x in (np.array([0, 5, 0, 6], F32), np.array([1], F32), np.zeros(3, F32)):
        got = program.predict({"x": x})
        np.testing.assert_array_equal(got["r"], -x)
        np.testing.assert_array_equal(got["g"], np.nonzero(x))
        np.testing.assert_array_equal(got["y"], -x[np.nonzero(x)[0]][None])


def test_results_of_unknown_shape_keep_their_own_types(opened: Callable[..., Program]) -> None:
    program = opened(
        [collective("Broadcast", "x k", "y z")],
        {"x": ["n"], "k": (np.int64, None)},
        {"y": ["n"], "z": (np.int64, None)},
    )
    got = program.predict({"x": ONE, "k": np.array([[7]])})
    assert got["z"].dtype == np.int64 and got["z"].tolist() == [[7]] and got["y"].dtype == F32


@pytest.mark.parametrize("dtype", [F32, np.float16, BF16, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_types_and_shapes(
    opened: Callable[..., Program], dtype: Any, shape: tuple[int, ...], known: bool
) -> None:
    kind = (dtype, list(shape) if known else None)
    program = opened(
        [
            node("Identity", "x", "i"),
            node("Unsqueeze", "i zero", "u"),
            collective("AllReduce", "u", "r"),
            node("Squeeze", "r zero", "y"),
        ],
        {"x": kind},
        {"y": kind},
        constants={"zero": np.array([0])},
    )
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    y = program.predict({"x": x})["y"]
    assert (y.dtype, y.shape) == (x.dtype, shape)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    "bend",
    [
        lambda x: np.asfortranarray(x),
        lambda x: x.T.copy().T,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1][::-1],
        lambda x: np.frombuffer(b"?" + x.tobytes(), np.uint8)[1:].view(F32).reshape(x.shape),
        lambda x: np.broadcast_to(x, x.shape),
    ],
)
def test_inputs_of_any_layout(
    opened: Callable[..., Program], bend: Callable[[np.ndarray], np.ndarray]
) -> None:
    program = opened(
        [collective("AllReduce", "x", "r"), node("Add", "r x", "y")], {"x": [3, 4]}, {"y": [3, 4]}
    )
    x = np.arange(12, dtype=F32).reshape(3, 4)
    bent = bend(x)
    np.testing.assert_array_equal(program.predict({"x": bent})["y"], 2 * x)
    np.testing.assert_array_equal(bent, x)


def test_branches_that_see_values_of_other_segments(opened: Callable[..., Program]) -> None:
    then, other = (
        graph([node("Add", "a w", "t")], {}, {"t": [4]}),
        graph([node("Neg", "r", "e")], {}, {"e": [4]}),
    )
    program = opened(
        [
            node("Identity", "x", "a"),
            collective("AllReduce", "a", "r"),
            node("If", "go", "y", then_branch=then, else_branch=other),
        ],
        {"x": [4], "go": (bool, [])},
        constants={"w": ONE},
    )
    np.testing.assert_array_equal(program.predict({"x": ONE, "go": np.array(True)})["y"], 2 * ONE)
    np.testing.assert_array_equal(program.predict({"x": ONE, "go": np.array(False)})["y"], -ONE)


def test_constants_into_collectives(opened: Callable[..., Program], tmp_path: Path) -> None:
    np.arange(-2, 4, dtype=F32).tofile(tmp_path / "w.bin")
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "16")):
        weight.external_data.add(key=key, value=value)
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(ONE * 10))
    program = opened(
        [
            constant,
            collective("AllReduce", "w", "a"),
            collective("AllReduce", "c", "b"),
            node("Sum", "x a b w", "y"),
        ],
        constants={"w": weight},
    )
    for _ in range(2):
        np.testing.assert_array_equal(program.predict({"x": ONE})["y"], 13 * ONE)


def test_a_model_without_steps(opened: Callable[..., Program]) -> None:
    program = opened([node("Identity", "x", "y")])
    np.testing.assert_array_equal(program.predict({"x": ONE})["y"], ONE)


# What is refused.


@pytest.mark.parametrize(
    ("inputs", "phrase"),
    [
        ({}, "the input 'x' is missing; got []"),
        ({"z": ONE}, "has no input 'z', but ['x', 'k']"),
        ({"x": ONE}, "the input 'k' is missing; got ['x']"),
        ({"x": ONE, "k": np.zeros((1, 2), np.int64), "more": ONE}, "has no input 'more'"),
        (
            {"x": ONE.astype(np.float64), "k": np.zeros((1, 2), np.int64)},
            "'x' is float64, expected float32",
        ),
        ({"x": ONE.astype(">f4"), "k": np.zeros((1, 2), np.int64)}, "'x' is >f4, expected float32"),
        ({"x": ONE[:3], "k": np.zeros((1, 2), np.int64)}, "'x' has the shape [3], expected [4]"),
        (
            {"x": ONE[None], "k": np.zeros((1, 2), np.int64)},
            "'x' has the shape [1, 4], expected [4]",
        ),
        (
            {"x": ONE, "k": np.zeros((1, 3), np.int64)},
            "'k' has the shape [1, 3], expected [-1, 2] (-1: any)",
        ),
        ({"x": ONE, "k": np.array(0)}, "'k' has the shape [], expected [-1, 2]"),
    ],
)
def test_inputs_that_do_not_fit(
    opened: Callable[..., Program], inputs: dict[str, np.ndarray], phrase: str
) -> None:
    program = opened([node("Neg", "x", "y")], {"x": [4], "k": (np.int64, ["n", 2])})
    with pytest.raises(InputError) as caught:
        program.predict(inputs)
    assert phrase in str(caught.value) and "m.onnx" in str(caught.value)
    program.predict({"x": ONE, "k": np.zeros((5, 2), np.int64)})


def test_open_dimensions_among_several(tmp_path: Path) -> None:
    shard = model(
        [
            collective("ReduceScatter", "x", "p"),
            collective("AllGather", "p", "y"),
            collective("AllToAll", "y", "z"),
        ],
        {"x": ["n"]},
        {"p": None, "y": None, "z": None},
    )
    for size in (2, 6):
        x = np.arange(size, dtype=F32)
        for rank, got in enumerate(run_all(tmp_path, [shard] * 2, [{"x": x}] * 2)):
            np.testing.assert_array_equal(got["p"], np.split(2 * x, 2)[rank])
            np.testing.assert_array_equal(got["y"], 2 * x)
            np.testing.assert_array_equal(got["z"], np.tile(np.split(2 * x, 2)[rank], 2))


def test_open_dimensions_that_do_not_fit_a_collective(tmp_path: Path) -> None:
    shard = model([collective("ReduceScatter", "x", "y")], {"x": ["n"]}, {"y": ["m"]})
    with pytest.raises(InputError, match=r"node ReduceScatter y .* shape \[3\]: .* multiple of 2"):
        run_all(tmp_path, [shard] * 2, [{"x": ONE[:3]}] * 2)
    shard = model([collective("AllReduce", "x", "y")], {"x": ["n"]}, {"y": [4]})
    with pytest.raises(
        InputError, match=r"m\d\.onnx: node AllReduce y: AllReduce of float32\(3,\) cannot fill"
    ):
        run_all(tmp_path, [shard] * 2, [{"x": ONE[:3]}] * 2)
    shard = model([collective("AllGather", "x", "y")], {"x": None}, {"y": None})
    with pytest.raises(InputError, match=r"shape \[\]: it needs a first axis"):
        run_all(tmp_path, [shard] * 2, [{"x": np.array(1, F32)}] * 2)


def test_what_onnxruntime_refuses_names_the_file(opened: Callable[..., Program]) -> None:
    with pytest.raises(
        ModelError, match=r"m\.onnx: onnxruntime refuses the segment that ends in y: .*Mystery"
    ):
        opened([helper.make_node("Mystery", ["x"], ["y"])])


def test_a_corrupt_constant_names_the_file(opened: Callable[..., Program]) -> None:
    short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], raw_data=b"1234")
    with pytest.raises(ModelError, match=r"m\.onnx: the tensor 'w' is corrupt: "):
        opened([collective("AllReduce", "w", "y"), node("Neg", "x", "z")], constants={"w": short})


def test_stages_in_their_order(tmp_path: Path) -> None:
    save(model([node("Neg", "x", "y")], X, Y), str(tmp_path / "m.onnx"))
    with meetings() as (meeting,):
        open_program(ProgramSpec(str(tmp_path / "m.onnx")), meeting).close()
        assert meeting.stages == [Stage.READING, Stage.CHECKING, Stage.BUILDING, Stage.READY]


# Several ranks.


def test_every_kind_of_collective_among_three(tmp_path: Path) -> None:
    info = {"e": [6, 2], "f": [6, 2]}

    def shard(rank: int) -> Any:
        right, left = (rank + 1) % 3, (rank - 1) % 3
        point = (
            [collective("Send", "x", "", to=1)]
            if rank == 0
            else [collective("Receive", "", "p", source=0, shape=[6, 2], dtype=TensorProto.FLOAT)]
            if rank == 1
            else []
        )
        nodes = [
            *point,
            collective("AllReduce", "x", "sum"),
            collective("AllReduce", "x", "max", reduction="max"),
            collective("AllGather", "x", "all"),
            collective("ReduceScatter", "x", "part"),
            collective("AllToAll", "x", "swapped"),
            collective("Broadcast", "x", "b", root=2),
            collective("Reduce", "x", "r", root=1),
            collective("CollectiveGather", "x", "g", root=1),
            collective("CollectiveScatter", "x", "s", root=2),
            collective(
                "NeighborExchange",
                "x sum",
                "e f",
                sends_to=[right, left],
                receives_from=[left, right],
            ),
        ]
        if rank < 2:
            nodes.append(collective("AllReduce", "x", "two", group="pair", ranks=[0, 1]))
        names = [name for one in nodes for name in one.output]
        return model(
            nodes, {"x": [6, 2]}, {name: None for name in names if name not in info} | info
        )

    x = [np.arange(12, dtype=F32).reshape(6, 2) * 10**rank for rank in range(3)]
    total, zeros = x[0] + x[1] + x[2], np.zeros((6, 2), F32)
    results = run_all(tmp_path, [shard(rank) for rank in range(3)], [{"x": one} for one in x])
    for rank, got in enumerate(results):
        part = slice(rank * 2, rank * 2 + 2)
        expected = {
            "sum": total,
            "max": x[2],
            "all": np.concatenate(x),
            "part": total[part],
            "swapped": np.concatenate([one[part] for one in x]),
            "b": x[2],
            "r": total if rank == 1 else zeros,
            "g": np.concatenate(x) if rank == 1 else np.zeros((18, 2), F32),
            "s": x[2][part],
            "e": x[(rank - 1) % 3],
            "f": total,
            **({"p": x[0]} if rank == 1 else {}),
            **({"two": x[0] + x[1]} if rank < 2 else {}),
        }
        assert got.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name], value, err_msg=f"rank {rank}, {name}")


def test_tensor_parallel_equals_unsliced(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    w1, w2 = (random.standard_normal(shape, F32) for shape in ((8, 12), (12, 8)))
    x = random.standard_normal((5, 8), F32)

    def shard(rank: int) -> Any:
        mine = slice(rank * 6, rank * 6 + 6)
        nodes = [
            node("MatMul", "x w1", "h"),
            node("Relu", "h", "a"),
            node("MatMul", "a w2", "p"),
            collective("AllReduce", "p", "s"),
            node("Add", "s x", "y"),
        ]
        return model(
            nodes, {"x": ["n", 8]}, {"y": ["n", 8]}, constants={"w1": w1[:, mine], "w2": w2[mine]}
        )

    for got in run_all(tmp_path, [shard(0), shard(1)], [{"x": x}] * 2):
        np.testing.assert_allclose(got["y"], np.maximum(x @ w1, 0) @ w2 + x, rtol=1e-5, atol=1e-5)


def test_a_pipeline(tmp_path: Path) -> None:
    first = model(
        [node("Neg", "x", "a"), collective("Send", "a", "", to=1)],
        X,
        {"w": [4]},
        constants={"w": ONE},
    )
    receive = collective("Receive", "", "r", source=0, shape=[4], dtype=TensorProto.FLOAT)
    last = model([receive, node("Abs", "r", "y")], X, Y)
    results = run_all(tmp_path, [first, last], [{"x": -ONE}] * 2)
    np.testing.assert_array_equal(results[1]["y"], ONE)


def test_shards_that_do_not_fit_are_refused_by_all(tmp_path: Path) -> None:
    def shard(reduction: str) -> Any:
        return model([collective("AllReduce", "x", "y", reduction=reduction)], X, Y)

    with pytest.raises(
        ShardMismatch, match=r"m0\.onnx \(rank 0\) and .*m1\.onnx \(rank 1\) disagree"
    ):
        run_all(tmp_path, [shard("sum"), shard("max")], [{"x": ONE}] * 2)


def test_a_rank_that_cannot_read_its_shard_fails_the_others(tmp_path: Path) -> None:
    save(model([collective("AllReduce", "x", "y")], X, Y), str(tmp_path / "m0.onnx"))
    outcomes: dict[int, Exception] = {}

    def act(meeting: Any) -> None:
        try:
            open_program(ProgramSpec(str(tmp_path / f"m{meeting.rank.rank}.onnx")), meeting)
        except Exception as error:
            outcomes[meeting.rank.rank] = error
            raise

    with pytest.raises(ModelError, match=r"m1\.onnx: cannot be read"):
        together(2, act)
    assert isinstance(outcomes[0], RankFailed) and isinstance(outcomes[1], ModelError)


def test_nothing_is_left_open(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    shard = model([collective("AllReduce", "x", "y")], X, Y)
    run_all(tmp_path, [shard, shard], [{"x": ONE}] * 2)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_declared_output_beyond_all_memory_is_a_hint(opened: Callable[..., Program]) -> None:
    """No array is made for it before the model has told the right shape."""
    program = opened([node("Neg", "x", "y")], X, {"y": [1 << 31, 64]})
    assert program.predict({"x": ONE})["y"].tolist() == (-ONE).tolist()
