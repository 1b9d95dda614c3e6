from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save
from onnx_models import collective, model, node

from rankmesh.comm.errors import ModelError
from rankmesh.launch.inspection.inspect import describe, inspect_model

pytestmark = pytest.mark.pure

X, Y = {"x": [4]}, {"y": [4]}


def written(
    folder: Path,
    nodes: list[Any],
    inputs: Any = None,
    outputs: Any = None,
    name: str = "m.onnx",
    **more: Any,
) -> str:
    save(model(nodes, inputs or X, outputs or Y, **more), str(folder / name))
    return str(folder / name)


def test_everything_about_a_shard(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        [
            node("Add", "x w", "a"),
            node("Relu", "a", "b"),
            collective("AllReduce", "b", "c", group="tp", ranks=[1, 3]),
            node("Neg", "c", "y"),
        ],
        {"x": ["n", 4]},
        {"y": None},
        constants={"w": np.ones(4, np.float32)},
    )
    described = describe(path)
    (weight,) = described.pop("weights")
    assert (weight["name"], weight["dtype"], weight["shape"]) == ("w", "float32", [4])
    assert described == {
        "file": path,
        "format": "ONNX",
        "producer": "",
        "parameters": 1,
        "parameter_bytes": 16,
        "unsupported": {},
        "primitives": {"Add": 1, "Relu": 1, "rankmesh.AllReduce": 1, "Neg": 1},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [-1, 4]}],
        "collectives": [
            {
                "kind": "AllReduce",
                "node": "AllReduce c",
                "group": "tp",
                "ranks": [1, 3],
                "operands": ["float32[-1, 4]"],
            }
        ],
        "segments": [
            {"nodes": 2, "inputs": ["x"], "outputs": ["b"]},
            {"nodes": 1, "inputs": ["c"], "outputs": ["y"]},
        ],
    }


@pytest.mark.parametrize(
    ("nodes", "ranks"),
    [
        ([collective("Broadcast", "x", "y", root=2)], [0, 1, 2]),
        ([collective("AllReduce", "x", "y", size=4)], [0, 1, 2, 3]),
        ([collective("AllReduce", "x", "y")], [0, 1]),
        ([collective("AllReduce", "x", "y", size=1)], [0]),
        ([collective("CollectiveGather", "x", "y", position=1, size=2, root=0)], [0, 1]),
        ([collective("Reduce", "x", "y", root=0, ranks=[2, 3], position=1)], [2, 3]),
        ([collective("Send", "x", "", to=3), node("Neg", "x", "y")], [0, 1, 2, 3]),
        (
            [
                collective("AllReduce", "x", "a", ranks=[0, 2]),
                collective("AllReduce", "a", "y", ranks=[2, 3]),
            ],
            [0, 2],
        ),
    ],
)
def test_a_lone_file_is_planned_for_a_place_that_it_fits(
    tmp_path: Path, nodes: list[Any], ranks: list[int]
) -> None:
    shape = (
        [1] if nodes[0].op_type in ("Reduce", "CollectiveGather") else [4]
    )  # as MindSpore has it where no root is
    described = describe(written(tmp_path, nodes, outputs={"y": shape}))
    assert described["collectives"][0]["ranks"] == ranks


def test_the_rank_that_a_file_names_is_not_searched(tmp_path: Path) -> None:
    """Which of many ranks it is says the position in a group, or in a list of ranks."""
    nodes = [
        collective("CollectiveGather", "x", "a", position=16_000, size=16_384, root=0),
        collective("CollectiveGather", "a", "y", position=1, ranks=[3, 16_000, 16_001], root=0),
    ]
    described = describe(written(tmp_path, nodes, outputs={"y": [1]}))
    assert [len(one["ranks"]) for one in described["collectives"]] == [16_384, 3]


def test_what_has_no_result_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        written(tmp_path, [collective("Reduce", "x", "y", root=1)], name=f"m{rank}.onnx")
    inspect_model(str(tmp_path / "m.onnx"), False)
    lines = [line for line in capsys.readouterr().out.splitlines() if "output" in line]
    assert lines == ["  output: y float32[4] (no result on this rank)", "  output: y float32[4]"]


def test_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain = [collective("AllReduce", f"v{i}", f"v{i + 1}") for i in range(14)]
    inspect_model(
        written(tmp_path, [node("Neg", "x", "v0"), *chain, node("Abs", "v14", "y")]), False
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == [
        "  parameters: 0, 0.000 MB",
        "  input: x float32[4]",
        "  output: y float32[4]",
    ]
    assert (
        sum(
            line.startswith("  collective: AllReduce float32[4] among ranks [0, 1]")
            for line in lines
        )
        == 12
    )
    assert lines[-2:] == [
        "  ... 2 more collectives (--json lists all)",
        "  plan: 2 segments of [1, 1] nodes, 14 collectives between them",
    ]


def test_json_has_every_shard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(3):
        written(tmp_path, [collective("AllReduce", "x", "y")], name=f"m{rank}.onnx")
    inspect_model(str(tmp_path / "m{rank}.onnx"), True)
    found = json.loads(capsys.readouterr().out)
    assert [one["file"] for one in found] == [str(tmp_path / f"m{rank}.onnx") for rank in range(3)]
    assert found[2]["collectives"][0]["ranks"] == [0, 1, 2]


def test_collectives_of_functions_and_packed_weights(tmp_path: Path) -> None:
    own = helper.make_function(
        "own",
        "F",
        ["p"],
        ["q"],
        [collective("AllReduce", "p", "q", ranks=[0, 1])],
        [helper.make_opsetid("rankmesh", 1)],
    )
    packed = TensorProto(name="w", data_type=TensorProto.INT4, dims=[4], raw_data=b"\x21\x43")
    path = written(
        tmp_path,
        [
            node("DequantizeLinear", "w s", "d"),
            node("Add", "x d", "a"),
            helper.make_node("F", ["a"], ["y"], domain="own"),
        ],
        constants={"w": packed, "s": np.array(1, np.float32)},
        functions=[own],
    )
    described = describe(path)
    assert described["collectives"][0]["ranks"] == [0, 1]
    assert (described["parameters"], described["parameter_bytes"]) == (2, 6)


def test_what_cannot_be_planned_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="AllShuffle"):
        describe(written(tmp_path, [collective("AllShuffle", "x", "y")]))


def test_one_collective_is_no_plural(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect_model(written(tmp_path, [collective("AllReduce", "x", "y", ranks=[0, 1])]), False)
    assert "  plan: 0 segments of [] nodes, 1 collective between them\n" in capsys.readouterr().out
