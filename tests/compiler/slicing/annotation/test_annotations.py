"""Annotations of the whole model: written for a plan, read again, obeyed, and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from sliced import example

import rankmesh
from rankmesh.compiler.slicing.annotation.sharded_axis import factors_of, split_of
from rankmesh.compiler.slicing.placement.placements import WHOLE, Split
from rankmesh.compiler.slicing.search.greedy import GreedySearch
from rankmesh.compiler.slicing.search.solve import SliceProgram

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "model.onnx"
    example().main(path)
    return path


@pytest.mark.parametrize(("ranks", "stages"), [(3, 1), (4, 2)])
def test_an_annotated_model_gives_its_plan_again(
    model: Path, tmp_path: Path, ranks: int, stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rankmesh.plan_slices(str(model), ranks, stages=stages)
    plan.annotate(str(tmp_path / "whole.onnx"))
    for search in (SliceProgram, GreedySearch):
        monkeypatch.setattr(search, "solve", None)  # nothing is left to choose
    again = rankmesh.plan_slices(str(tmp_path / "whole.onnx"), ranks, stages=stages)
    assert again.slices == plan.slices
    assert any(one != WHOLE for found in plan.slices.strategies.values() for one in found.outputs)
    written = onnx.load(tmp_path / "whole.onnx", load_external_data=False)
    assert written.ir_version == 11 and written.configuration[0].num_devices == ranks
    session = onnxruntime.InferenceSession(tmp_path / "whole.onnx")
    if stages > 1:
        with pytest.raises(
            rankmesh.UsageError, match="has stage 1, and the plan has 1 stage: plan"
        ):
            rankmesh.plan_slices(str(tmp_path / "whole.onnx"), ranks)
    case = np.load(model.with_suffix(".npz"))
    logits = session.run(None, {"ids": case["ids"]})[0]
    assert np.abs(logits - case["logits"]).max() <= TOLERANCE * np.abs(case["logits"]).max()


def annotated(model: Path, folder: Path, *words: tuple[str, str, list[int], dict]) -> str:  # type: ignore[type-arg]
    """The model with annotations: a node, a tensor, its devices, and factors by axis."""
    made = onnx.load(model)
    made.ir_version = 11
    made.configuration.add(name="mine", num_devices=2)
    for name, tensor, devices, axes in words:
        node = next(one for one in made.graph.node if one.name == name)
        if not node.device_configurations:
            node.device_configurations.add(configuration_id="mine")
        spec = node.device_configurations[0].sharding_spec.add(tensor_name=tensor, device=devices)
        for axis, factors in axes.items():
            dim = spec.sharded_dim.add(axis=axis)
            for size, shards in factors:
                dim.simple_sharding.add(dim_value=size, num_shards=shards)
    onnx.save(made, folder / "mine.onnx")
    return str(folder / "mine.onnx")


UP, DOWN = "layers.1.up", "layers.1.down"


def test_the_words_of_the_user_are_kept_and_the_rest_is_chosen(model: Path, tmp_path: Path) -> None:
    path = annotated(
        model,
        tmp_path,
        (UP, f"{UP}.weight", [0, 1], {}),
        ("layers.2.up", "layers.2.up.weight", [0, 1], {-2: [(32, 2), (2, 1)]}),
    )
    plan = rankmesh.plan_slices(path, 2)
    assert plan.strategy(UP)[0][1] == "replicated"
    assert plan.strategy("layers.2.up")[0][1] == "split(axis=0, bounds=[0, 32, 64])"
    assert plan.strategy("layers.2.up")[1] == ["partial(sum)"]
    assert plan.strategy("layers.0.up")[0][1] == "split(axis=1, bounds=[0, 128, 256])"
    report = rankmesh.slice_model(path, plan, str(tmp_path / "shards"))
    assert report.error is not None and report.error <= TOLERANCE
    shard = onnx.load(report.files[0], load_external_data=False)
    assert not shard.configuration
    assert not any(node.device_configurations for node in shard.graph.node)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([(UP, "missing", [0, 1], {})], "names a tensor that is no input or output"),
        ([(UP, UP, [1, 0], {})], r"devices \[1, 0\], expected \[0, 1\]"),
        ([(UP, UP, [0, 1], {7: [(256, 2)]})], "output 0 has no axis 7"),
        ([(UP, UP, [0, 1], {2: [(256, 4)]})], r"into \[4\] shards, expected \[2\]"),
        ([(UP, UP, [0, 1], {2: [(100, 2)]})], r"has 256 elements, and its factors are \[100\]"),
        ([(UP, UP, [0, 1], {1: [(12, 2)]})], "axis 1 of output 0 is an open dimension"),
        (
            [(UP, f"{UP}.weight", [0, 1], {0: [(64, 2)], 1: [(256, 2)]})],
            "input 1 is divided along 2 axes",
        ),
        (
            [(UP, f"{UP}.weight", [0, 1], {1: [(256, 2)]}), (UP, UP, [0, 1], {})],
            r"input 1 split\(axis=1, .*, output 0 replicated, which the rule",
        ),
    ],
)
def test_impossible_words_are_refused(
    model: Path,
    tmp_path: Path,
    words: list,
    message: str,  # type: ignore[type-arg]
) -> None:
    path = annotated(model, tmp_path, *words)
    with pytest.raises(rankmesh.UsageError, match=message) as found:
        rankmesh.plan_slices(path, 2)
    assert f"mine.onnx: node {UP} (MatMul)" in str(found.value)


def test_another_number_of_ranks_is_refused(model: Path, tmp_path: Path) -> None:
    path = annotated(model, tmp_path, (UP, UP, [0, 1], {}))
    with pytest.raises(rankmesh.UsageError, match="for mine of 2 devices, and the plan has 3"):
        rankmesh.plan_slices(path, 3)


@pytest.mark.pure
def test_factors_of_an_axis() -> None:
    for one in (
        Split(1, (0, 5, 10)),
        Split(0, (0, 4, 7)),
        Split(2, (0, 192, 384, 512, 640, 768)),  # 12 heads of 64 on 5 ranks are 3, 3, 2, 2, 2
        Split(0, (0, 32, 64), (1, 1, 1)),
    ):
        factors = factors_of(one)
        if factors is not None:
            assert split_of(one.axis, factors, one.length, one.ranks) == one
    assert factors_of(Split(0, (0, 32, 64), (1, 1, 1))) == [(3, 1), (64, 2)]
    assert factors_of(Split(0, (0, 1, 2), (4, 1, 1))) is None
    assert factors_of(Split(0, (0, 1, 4))) is None
