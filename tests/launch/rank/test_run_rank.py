from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from meetings import together
from onnx import TensorProto, save
from onnx_models import BF16, collective, model, node

from rankmesh.comm.errors import InputError
from rankmesh.comm.job.shard import Shards
from rankmesh.compiler.model_file.config import Config
from rankmesh.launch.rank.job import RankReport, RunJob
from rankmesh.launch.rank.run_rank import run_rank
from rankmesh.launch.run.options import RunOptions
from rankmesh.launch.run.report import verdict

F32 = np.float32
X, Y = {"x": [4]}, {"y": [4]}
ONE = np.arange(4, dtype=F32)


def run(folder: Path, shards: Sequence[Any], **options: Any) -> list[RankReport]:
    """The reports of all ranks, each a thread; files of the options lie in `folder`."""
    for rank, shard in enumerate(shards):
        save(shard, str(folder / f"m{rank}.onnx"))
    paths = {
        name: str(folder / name_of)
        for name, name_of in options.items()
        if name in ("inputs", "expect", "save")
    }
    shards = Shards(str(folder / "m{rank}.onnx"), len(shards))
    asked = RunOptions(shards.pattern, **{**options, **paths})
    job = asked.job(shards, "cpu", Config(), spin=False)
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=RunJob)
    reports = together(shards.count, lambda meeting: run_rank(wire, meeting))
    return [
        msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=RankReport)
        for report in reports
    ]


def npz(folder: Path, name: str = "data.npz", **arrays: np.ndarray) -> str:
    np.savez(folder / name, **arrays)
    return name


def summing() -> Any:
    return model([collective("AllReduce", "x", "y")], X, Y)


def test_what_a_rank_reports(tmp_path: Path) -> None:
    shard = model(
        [node("Concat", "x x x", "y", axis=0), node("Cast", "x", "k", to=TensorProto.BOOL)],
        X,
        {"y": [12], "k": (bool, [4])},
    )
    (report,) = run(tmp_path, [shard], inputs=npz(tmp_path, in_0=ONE))
    y, k = report.outputs
    assert (y.name, y.dtype, y.shape, y.bytes, y.elements) == ("y", "float32", (12,), 48, 12)
    assert y.first == ("0.0", "1.0", "2.0", "3.0", "0.0", "1.0", "2.0", "3.0", "0.0", "1.0")
    assert (k.dtype, k.bytes, k.first) == ("bool", 4, ("False", "True", "True", "True"))
    assert not y.compared and report.seconds == () and report.path == str(tmp_path / "m0.onnx")


def test_inputs_are_ones_unless_given(tmp_path: Path) -> None:
    shard = model([node("Add", "x x", "y")], {"x": ["n", 3]}, {"y": ["n", 3]})
    assert run(tmp_path, [shard])[0].outputs[0].shape == (1, 3)
    assert run(tmp_path, [shard])[0].outputs[0].first == ("2.0",) * 3
    unknown = model([node("Add", "x x", "y")], {"x": None}, {"y": None})
    with pytest.raises(
        InputError, match="rank of the input 'x' is unknown: give the inputs with --inputs"
    ):
        run(tmp_path, [unknown])


@pytest.mark.pure
def test_every_rank_has_its_own_inputs_and_references(tmp_path: Path) -> None:
    for rank in range(2):
        npz(tmp_path, f"r{rank}.npz", in_0=ONE * (rank + 1), out_0=ONE * 3)
    reports = run(tmp_path, [summing()] * 2, inputs="r{rank}.npz", expect="r{rank}.npz")
    assert verdict(reports) == (0, "OK: 2 outputs of 2 ranks match; largest relative error 0")
    npz(tmp_path, "r1.npz", in_0=ONE * 2, out_0=ONE * 3 + 1)
    reports = run(tmp_path, [summing()] * 2, inputs="r{rank}.npz", expect="r{rank}.npz")
    assert [r.outputs[0].error == "" for r in reports] == [True, False]
    assert reports[1].outputs[0].max_absolute == 1 and verdict(reports)[0] == 1


@pytest.mark.pure
def test_a_rank_whose_file_has_no_outputs_is_not_compared(tmp_path: Path) -> None:
    npz(tmp_path, "r0.npz", in_0=ONE, out_0=ONE * 2)
    npz(tmp_path, "r1.npz", in_0=ONE)
    reports = run(tmp_path, [summing()] * 2, inputs="r{rank}.npz", expect="r{rank}.npz")
    assert [r.outputs[0].compared for r in reports] == [True, False]
    npz(tmp_path, "r0.npz", in_0=ONE)
    assert verdict(run(tmp_path, [summing()] * 2, inputs="r0.npz", expect="r0.npz"))[0] == 1


def two_outputs() -> Any:
    return model([node("Neg", "x", "a"), node("Abs", "x", "b")], X, {"a": [4], "b": [4]})


@pytest.mark.parametrize(
    ("arrays", "phrase"),
    [
        ({"out_0": -ONE}, "no reference out_1 of 2 outputs; it has ['a']"),
        ({"b": ONE}, "no reference out_0"),
        ({"out_0": -ONE, "out_1": ONE, "out_2": ONE}, "an array 'out_2'"),
        ({"out_0": -ONE, "a": -ONE}, "two arrays for 'a'"),
    ],
)
def test_references_that_are_partial_or_too_many(
    tmp_path: Path, arrays: dict[str, np.ndarray], phrase: str
) -> None:
    with pytest.raises(InputError) as caught:
        run(tmp_path, [two_outputs()], expect=npz(tmp_path, **arrays))
    assert phrase in str(caught.value) and "data.npz" in str(caught.value)


def test_tolerances_go_through(tmp_path: Path) -> None:
    shard, data = two_outputs(), npz(tmp_path, in_0=ONE, out_0=-ONE, out_1=ONE + 0.25)
    errors = [
        run(tmp_path, [shard], inputs=data, expect=data, **more)[0].outputs[1].error
        for more in ({}, {"atol": 0.25}, {"rtol": 0.2}, {"rtol": 0.2, "atol": 0.2})
    ]
    assert [error == "" for error in errors] == [False, True, False, True]


@pytest.mark.pure
def test_bfloat16_is_saved_and_read_as_float32(tmp_path: Path) -> None:
    shard = model([collective("AllReduce", "x", "y")], {"x": (BF16, [4])}, {"y": (BF16, [4])})
    data = npz(tmp_path, in_0=ONE, out_0=ONE)
    (report,) = run(tmp_path, [shard], inputs=data, expect=data, save="saved.npz")
    assert (
        report.outputs[0].dtype == "bfloat16"
        and report.outputs[0].compared
        and not report.outputs[0].error
    )
    with np.load(tmp_path / "saved.npz") as archive:
        assert archive["out_0"].dtype == F32
        np.testing.assert_array_equal(archive["out_0"], ONE)
    again = run(tmp_path, [shard], inputs=data, expect="saved.npz")
    assert verdict(again)[0] == 0


def rooted(rank: int) -> Any:
    return model(
        [collective("Reduce", "x", "y", root=1), node("Neg", "x", "n")], X, {"n": [4], "y": [4]}
    )


def test_results_that_mean_nothing_are_neither_compared_nor_saved(tmp_path: Path) -> None:
    data = npz(tmp_path, in_0=ONE, out_0=-ONE, out_1=ONE * 2)
    reports = run(tmp_path, [rooted(0), rooted(1)], inputs=data, expect=data, save="s{rank}.npz")
    assert [[o.has_result for o in r.outputs] for r in reports] == [[True, False], [True, True]]
    assert [[o.compared for o in r.outputs] for r in reports] == [[True, False], [True, True]]
    assert verdict(reports) == (0, "OK: 3 outputs of 2 ranks match; largest relative error 0")
    saved = [sorted(np.load(tmp_path / f"s{rank}.npz")) for rank in range(2)]
    assert saved == [["out_0"], ["out_0", "out_1"]]
    npz(tmp_path, in_0=ONE, out_0=-ONE)
    with pytest.raises(
        InputError, match="no reference out_1 of 2 outputs"
    ):  # rank 1 has that result
        run(tmp_path, [rooted(0), rooted(1)], inputs="data.npz", expect="data.npz")


def pipeline() -> list[Any]:
    first = model(
        [node("Neg", "x", "a"), collective("Send", "a", "", to=1)],
        X,
        {"w": [4]},
        constants={"w": ONE},
    )
    receive = collective("Receive", "", "r", source=0, shape=[4], dtype=TensorProto.FLOAT)
    return [first, model([receive, node("Abs", "r", "y")], X, Y)]


def test_one_file_for_all_is_that_of_the_first_rank_with_results(tmp_path: Path) -> None:
    reports = run(tmp_path, pipeline(), inputs=npz(tmp_path, in_0=ONE), save="saved.npz")
    with np.load(tmp_path / "saved.npz") as archive:
        np.testing.assert_array_equal(archive["out_0"], ONE)
    assert [r.saved for r in reports] == ["", ""]


@pytest.mark.pure
def test_a_remark_where_ranks_would_save_different_results(tmp_path: Path) -> None:
    halves = [model([collective("ReduceScatter", "x", "y")], X, {"y": [2]})] * 2
    reports = run(tmp_path, halves, inputs=npz(tmp_path, in_0=ONE), save="saved.npz")
    assert (
        "outputs of rank 0; other ranks' are not bit for bit the same: put {rank}"
        in reports[0].saved
    )
    assert not reports[1].saved
    run(tmp_path, [summing()] * 2, inputs="data.npz", save="same.npz")
    assert sorted(p for p in os.listdir(tmp_path) if p.endswith(".npz")) == [
        "data.npz",
        "same.npz",
        "saved.npz",
    ]


@pytest.mark.pure
def test_repeat(tmp_path: Path) -> None:
    (report,) = run(tmp_path, [summing()], repeat=5)
    assert len(report.seconds) == len(report.collective_seconds) == 5
    assert all(
        0 < inside < total
        for inside, total in zip(report.collective_seconds, report.seconds, strict=True)
    )
    assert report.choice.name == "shared_memory"


def test_scalars_and_empty_outputs(tmp_path: Path) -> None:
    shard = model(
        [node("Size", "x", "s"), node("Slice", "x zero zero", "e")],
        X,
        {"s": (np.int64, []), "e": [0]},
        constants={"zero": np.array([0])},
    )
    data = npz(tmp_path, out_0=np.array(4, np.int64), out_1=np.zeros(0, F32))
    (report,) = run(tmp_path, [shard], expect=data)
    assert [(o.shape, o.first, o.error) for o in report.outputs] == [
        ((), ("4",), ""),
        ((0,), (), ""),
    ]
    data = npz(tmp_path, out_0=np.array(4, np.int64), out_1=np.zeros((0, 1), F32))
    assert "has shape [0]" in run(tmp_path, [shard], expect=data)[0].outputs[1].error
