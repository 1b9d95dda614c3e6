"""Whole networks: exports of MindSpore, planned for several ranks and run in lockstep.

Random plans of them as well. bench/slicing.py does the same with hundreds of networks.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from slicing import check_plan

from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.right_sizes.shapes import source_graph
from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan
from rankmesh.compiler.slicing.search.choose import choose_plan
from rankmesh.compiler.source_graph.source_graph import SourceGraph, source_model

pytest.importorskip("highspy", reason="highspy is not installed: pip install 'rankmesh[slice]'")

_MODELS = Path(__file__).parents[2] / "data/mindir"
_TRANSFORMERS = ["tf_bloom", "tf_gptj", "tf_experts_dyn", "bert_encoder"]
_CONTROL = ["cf_many_returns", "cf_while_return", "cf_closures", "cf_for_tensor", "zero_size"]


@cache
def _network(name: str) -> tuple[SourceGraph, dict[str, np.ndarray], list[np.ndarray]]:
    """A network, its example inputs, and what it gives for them unsliced."""
    path = _MODELS / name / f"{name}.mindir"
    graph = source_graph(source_model(load_model(str(path))), str(path))
    with np.load(path.with_suffix(".npz")) as data:
        feeds = {
            str(value.name): data[f"in_{index}"]
            for index, value in enumerate(graph.model.graph.inputs)
        }
    return graph, feeds, run_model(graph.model.clone(), feeds)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", _TRANSFORMERS + _CONTROL)
def test_every_rank_of_a_planned_network_gives_what_the_whole_gives(name: str, ranks: int) -> None:
    graph, feeds, expected = _network(name)
    check_plan(graph, choose_plan(graph, ranks, seconds=1.0).plan, feeds, expected)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", ["tf_bloom", "tf_experts_dyn"])
def test_the_last_stage_of_a_network_gives_what_the_whole_gives(name: str, ranks: int) -> None:
    graph, feeds, expected = _network(name)
    plan = with_stages(graph, choose_plan(graph, ranks, seconds=1.0).plan, 2)
    check_plan(graph, plan, feeds, expected)


@pytest.mark.parametrize("name", ["tf_bloom", "tf_experts_dyn"])
def test_a_transformer_is_split_between_two_ranks(name: str) -> None:
    graph, _, _ = _network(name)
    weights = choose_plan(graph, 2, seconds=60.0).prediction.weights
    total = sum(value.const_value.nbytes for value in graph.weights.values() if value.const_value)
    assert max(weights) <= 1.05 * total / 2


@pytest.mark.parametrize("name", ["tf_bloom", "tf_experts_dyn", "mlp_mint", "cf_while_return"])
def test_random_plans_give_what_the_whole_gives(name: str) -> None:
    graph, feeds, expected = _network(name)
    for ranks in (2, 3):
        found = propagate(graph, ranks)
        for seed in range(2):
            check_plan(graph, random_plan(graph, found, ranks, seed), feeds, expected)
