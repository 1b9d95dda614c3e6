"""Random models over all ways to run a file: the same answer, or the same refusal, by every way.

The models are legal but unusual ONNX; `tests/fuzz/fuzz_ways.py` asks thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import ml_dtypes
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_models import model as onnx_model
from real_ways import COMMANDS, orchestrated
from served_models import SAMPLE
from unusual_models import RandomModel, random_model
from ways import WAYS, Way, difference
from ways_judged import NATURAL, Judged, judged, plain

pytest.importorskip("torch")

from rankmesh.compiler.convert.operators.node_conversion import NodeConversion
from rankmesh.compiler.slicing.emission.weight_part import WeightPart
from rankmesh.worker.executors.torch.operator_node import TorchNode
from rankmesh.worker.session import session

_SEEDS = range(500, 540)
_REAL_SEEDS = (2, 7)
_PLANTED_SEEDS = range(600, 640)
_LEAST_ANSWERED = 0.95
_QUICK = ("run", "model", "torch")


@pytest.fixture(scope="module")
def no_cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKMESH_CACHE", "off")
        yield


def faults(seed: int, ways: dict[str, Way]) -> list[str]:
    return judged(random_model(Random(seed)), ways).wrong


@pytest.mark.slow
@pytest.mark.usefixtures("no_cache")
def test_random_models_give_the_same_by_every_way() -> None:
    found: dict[int, Judged] = {seed: judged(random_model(Random(seed)), WAYS) for seed in _SEEDS}
    assert {seed: one.wrong for seed, one in found.items() if one.wrong} == {}
    ran = [one for one in found.values() if one.ran]
    assert len(ran) > 0.8 * len(_SEEDS)
    assert sum(one.answered for one in ran) >= _LEAST_ANSWERED * len(ran)


@settings(max_examples=15, phases=[Phase.generate])  # fuzz_ways.py keeps what is to be made small
@given(st.randoms(use_true_random=False))
@pytest.mark.usefixtures("no_cache")
def test_models_of_hypothesis_give_the_same(random: Random) -> None:
    assert judged(random_model(random, 4), {name: WAYS[name] for name in _QUICK}).wrong == []


@pytest.mark.slow
@pytest.mark.usefixtures("no_cache")
def test_real_processes_give_the_same() -> None:
    with orchestrated(Path(SAMPLE)) as orchestrator:
        ways = {"run": WAYS["run"], "orchestrator": orchestrator, **COMMANDS}
        assert [fault for seed in _REAL_SEEDS for fault in faults(seed, ways)] == []


def ignore_real_attributes(patch: pytest.MonkeyPatch) -> None:
    """The torch executor takes defaults for numbers that nodes state, such as slopes."""
    patch.setattr(TorchNode, "real", lambda self, name, default=0.0: default)


def take_the_larger(patch: pytest.MonkeyPatch) -> None:
    """The converter writes another primitive."""
    apply, other = NodeConversion.apply, {"Minimum": "Maximum"}
    patch.setattr(
        NodeConversion,
        "apply",
        lambda self, primitive, *a, **k: apply(self, other.get(primitive, primitive), *a, **k),
    )


def promise_other_shapes(patch: pytest.MonkeyPatch) -> None:
    """A resize says shapes that the outputs do not have."""
    patch.setattr(session, "output_shapes", lambda plan, _: [(77,) for _ in plan.outputs])


def swap_parts(patch: pytest.MonkeyPatch) -> None:
    """Slices take another rank's part of a weight."""
    patch.setattr(WeightPart, "__init__", _of_rank_zero(WeightPart.__init__))


def _of_rank_zero(make: Callable[..., None]) -> Callable[..., None]:
    return lambda self, name, tensor, placement, rank, *more: make(
        self, name, tensor, placement, 0, *more
    )


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize(
    ("way", "plant"),
    [
        ("torch", ignore_real_attributes),
        ("convert", take_the_larger),
        ("resize", promise_other_shapes),
        ("slice", swap_parts),
    ],
)
def test_a_fault_that_is_planted_in_one_way_is_found(
    monkeypatch: pytest.MonkeyPatch, way: str, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    ways = {name: WAYS[name] for name in ("run", way)}
    wrong = next(found for seed in _PLANTED_SEEDS if (found := faults(seed, ways)))
    assert all(line.startswith(way) for line in wrong), wrong


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("way", WAYS)
def test_weights_of_float8(tmp_path: Path, way: str, kind: str) -> None:
    weight = np.arange(-12, 12).reshape(4, 6).astype(np.dtype(getattr(ml_dtypes, kind)))
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1)]
    nodes += [helper.make_node("MatMul", ["x", "w"], ["y"])]
    content = onnx_model(
        nodes,
        {"x": ["n", 4]},
        {"y": ["n", 6]},
        constants={"q": weight, "s": np.linspace(0.1, 0.6, 6, dtype=np.float32)},
    )
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    made = RandomModel(content, {"x": x}, (), 1e-4)
    assert judged(made, {way: WAYS[way]}).wrong == []
    assert judged(made, {way: WAYS[way]}).answered


def test_a_seed_makes_one_model() -> None:
    first, second = random_model(Random(11)), random_model(Random(11))
    assert first.model == second.model
    assert all(np.array_equal(first.feeds[name], second.feeds[name]) for name in first.feeds)


def test_texts_of_refusals_are_compared_without_the_way() -> None:
    assert plain("build_from_file failed! Error is /tmp/a/model.onnx: has no outputs.") == plain(
        "/tmp/b/model.onnx: has no outputs."
    )
    assert {way for way, _, _ in NATURAL} <= set(WAYS)


def test_differences_are_seen() -> None:
    one = np.ones(3, np.float32)
    assert difference([one], [one * 1.0001], 2e-4) == ""
    for other in (one * 1.001, one[:2], one.astype(np.float64), one * np.nan):
        assert difference([other], [one], 2e-4)
    assert difference([], [one], 1.0) and difference([np.array([1])], [np.array([2])], 1.0)
