"""The weights that `rankmesh inspect` lists, and which rank has which slice of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from encrypted import KEY, encrypt_file
from onnx import TensorProto, save
from onnx_models import collective, model, node
from primitives import Parameter, Writer
from processes import rankmesh

from rankmesh.comm.errors import ModelError
from rankmesh.launch.inspection.inspect import describe, inspect_model

DATA = Path(__file__).parents[2] / "data" / "mindir"
W = np.arange(16, dtype=np.float32).reshape(4, 4)


def listed(
    capsys: pytest.CaptureFixture[str], pattern: object, all_weights: bool = False
) -> list[str]:
    inspect_model(str(pattern), False, all_weights=all_weights)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    return [line for line in lines if line.startswith(("weight", "..."))]


@pytest.mark.parametrize(
    "name, lines",
    [
        (
            "dist_tp_mlp_2",
            [
                "w1 float32[16, 16]: 2 slices along axis 1 of [16, 32]: rank 0 | rank 1",
                "b1 float32[16]: 2 slices along axis 0 of [32]: rank 0 | rank 1",
                "w2 float32[16, 16]: 2 slices along axis 0 of [32, 16]: rank 0 | rank 1",
                "b2 float32[16]: the same on all ranks",
            ],
        ),
        (
            "dist_dp_tp_mlp_4",
            [
                "w1 float32[16, 16]: 2 slices along axis 1 of [16, 32]: ranks 0, 2 | ranks 1, 3",
                "b1 float32[16]: 2 slices along axis 0 of [32]: ranks 0, 2 | ranks 1, 3",
                "w2 float32[16, 16]: 2 slices along axis 0 of [32, 16]: ranks 0, 2 | ranks 1, 3",
                "b2 float32[16]: the same on all ranks",
            ],
        ),
        (
            "dist_optshard_2",
            [
                "w1 float32[8, 32]: 2 slices along axis 0 of [16, 32]: rank 0 | rank 1",
                "b1 float32[16]: 2 slices along axis 0 of [32]: rank 0 | rank 1",
                "w2 float32[16, 16]: 2 slices along axis 0 of [32, 16]: rank 0 | rank 1",
                "b2 float32[8]: 2 slices along axis 0 of [16]: rank 0 | rank 1",
            ],
        ),
        (
            "dist_pipeline_2",
            ["s0.w float32[16, 16]: only on rank 0", "s1.w float32[16, 16]: only on rank 1"],
        ),
        (
            "dist_hand_mlp",
            [
                *(
                    (
                        f"{name}: 2 slices, or weights of their own (the files do not say): rank 0 "
                        "| rank 1"
                    )
                    for name in ("w1 float32[16, 16]", "b1 float32[16]", "w2 float32[16, 16]")
                ),
                "b2 float32[16]: the same on all ranks",
            ],
        ),
    ],
)
def test_what_mindspore_sliced(
    name: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    head, *found = listed(capsys, DATA / name / f"{name}_rank{{rank}}.mindir")
    assert head == f"weights of {4 if name.endswith('4') else 2} ranks:"
    assert found == [f"weight: {line}" for line in lines]


def test_a_lone_shard(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, DATA / "dist_tp_mlp_2" / "dist_tp_mlp_2_rank1.mindir") == [
        "weight: w1 float32[16, 16], one of 2 slices along axis 1 of [16, 32]",
        "weight: b1 float32[16], one of 2 slices along axis 0 of [32]",
        "weight: w2 float32[16, 16], one of 2 slices along axis 0 of [32, 16]",
        "weight: b2 float32[16]",
    ]


def test_onnx_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Uneven parts tell their axis, and so does an AllGather of the weight itself."""
    for rank, rows in enumerate((W[:3], W[3:])):
        nodes = [
            node("MatMul", "x uneven", "a"),
            collective("AllGather", "part", "b", size=2),
            node("MatMul", "a b", "y"),
        ]
        save(
            model(
                nodes,
                {"x": [4, 4]},
                {"y": None},
                constants={"uneven": rows.T.copy(), "part": W[2 * rank : 2 * rank + 2], "same": W},
            ),
            str(tmp_path / f"m{rank}.onnx"),
        )
    assert listed(capsys, tmp_path / "m.onnx") == [
        "weights of 2 ranks:",
        "weight: uneven float32[4, 3] | float32[4, 1]: 2 slices along axis 1: rank 0 | rank 1",
        "weight: part float32[2, 4]: 2 slices along axis 0 of [4, 4]: rank 0 | rank 1",
        "weight: same float32[4, 4]: the same on all ranks",
    ]


def test_slices_that_are_equal_in_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        nodes = [collective("AllGather", "part", "b", size=2), node("MatMul", "x b", "y")]
        save(
            model(
                nodes, {"x": [4, 4]}, {"y": None}, constants={"part": np.zeros((2, 4), np.float32)}
            ),
            str(tmp_path / f"m{rank}.onnx"),
        )
    assert listed(capsys, tmp_path / "m.onnx")[1:] == [
        "weight: part float32[2, 4]: 2 slices along axis 0 of [4, 4], equal in content"
    ]


def test_many_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = TensorProto(name="w", data_type=TensorProto.INT4, dims=[4], raw_data=b"\x21\x43")
    constants = {"packed": packed, **{f"w{number}": W for number in range(20)}}
    save(
        model([node("Neg", "x", "y")], {"x": [4]}, {"y": [4]}, constants=constants),
        str(tmp_path / "m.onnx"),
    )
    few, everything = (
        listed(capsys, tmp_path / "m.onnx", all_weights) for all_weights in (False, True)
    )
    assert few == [*everything[:12], "... 9 more weights (--weights shows all)"]
    assert everything[0] == "weight: w int4[4]" and len(everything) == 21


def test_json_by_the_command_line(tmp_path: Path) -> None:
    """Also of encrypted files, whose plain text is read in memory."""
    for rank in range(2):
        encrypt_file(
            DATA / "dist_tp_mlp_2" / f"dist_tp_mlp_2_rank{rank}.mindir",
            tmp_path / f"m{rank}.mindir",
            "AES-CBC",
            4096,
        )
    done = rankmesh(
        "inspect", tmp_path / "m.mindir", "--json", "--dec-mode", "AES-CBC", RANKMESH_KEY=KEY.hex()
    )
    assert done.returncode == 0, done.stderr
    shards = [{one["name"]: one for one in shard["weights"]} for shard in json.loads(done.stdout)]
    assert [shard["w1"]["slice"] for shard in shards] == [0, 1]
    assert [shard["b2"]["slice"] for shard in shards] == [0, 0]
    assert (
        shards[0]["w1"]["slices"] == 2
        and shards[0]["w1"]["cuts"] == [1, 2]
        and "cuts" not in shards[0]["b2"]
    )
    assert shards[0]["w1"]["content"] != shards[1]["w1"]["content"]


def test_a_rank_size_that_is_no_number_is_none(tmp_path: Path) -> None:
    writer, weight = Writer(), np.ones(4, np.float32)
    key = writer.node(
        "AllGather", [Parameter(weight)], np.ones(8, np.float32), {"group": "g", "rank_size": "two"}
    )
    with pytest.raises(ModelError, match="rank_size|size"):
        describe(str(writer.save(tmp_path / "m.mindir", key, np.ones(8, np.float32))))
