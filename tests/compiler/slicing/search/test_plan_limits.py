"""Plans under several limits: none is worse than another in bytes and in predicted time."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from random import Random

import pytest
from plan_graphs import MLP, SHAPES, chain, layer
from plan_limits import default_factor, plans_under_limits, worse_plans
from random_networks import random_network
from slicing import graph_of

from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.prediction import Prediction
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.search.choice_task import Choice
from rankmesh.compiler.slicing.search.choose import choose_plan
from rankmesh.compiler.slicing.search.front import Front
from rankmesh.compiler.slicing.search.uneven_heads import has_uneven_heads
from rankmesh.compiler.slicing.slicer import PlanGoal, plan_graph
from rankmesh.compiler.slicing.sources import read_source
from rankmesh.compiler.source_graph.source_graph import SourceGraph

pytest.importorskip("highspy", reason="highspy is not installed: pip install 'rankmesh[slice]'")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> SourceGraph:
    """An encoder of four layers and four heads, whose queries, keys and values are one matrix."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(1000, 64)
            one = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
            self.layers = torch.nn.TransformerEncoder(one, 4, enable_nested_tensor=False)
            self.last = torch.nn.Linear(64, 1000)

        def forward(self, ids):  # type: ignore[no-untyped-def]
            return self.last(self.layers(self.embedding(ids)))

    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    ids = torch.randint(0, 1000, (1, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the older exporter, which is the faster one
        torch.onnx.export(Network().eval(), (ids,), str(path), dynamo=False, opset_version=17)
    return read_source(str(path), None)


def test_the_default_for_an_exported_transformer_is_as_small_as_it_can_be(
    exported: SourceGraph,
) -> None:
    default = choose_plan(exported, 2).prediction
    tight = choose_plan(exported, 2, memory=max(default.needed)).prediction
    assert max(default.matrices) <= 1.02 * max(tight.matrices)
    assert tight.seconds <= default.seconds * (1 + 1e-9)


def test_one_matrix_of_queries_keys_and_values_has_the_heads_of_each(exported: SourceGraph) -> None:
    assert not has_uneven_heads(propagate(exported, 2), 2)
    assert has_uneven_heads(propagate(exported, 3), 3)  # four heads


@pytest.mark.parametrize("ranks", [5, 8])
def test_heads_that_ranks_do_not_divide_give_no_plan_that_is_worse_than_others(ranks: int) -> None:
    plans = plans_under_limits(layer(12, 32), ranks, limits=1)
    assert list(worse_plans(plans)) == []
    assert default_factor(plans) <= 1.10


@pytest.mark.parametrize("seed", [12])
def test_no_plan_of_a_random_network_is_worse_than_one_for_another_limit(seed: int) -> None:
    graph = graph_of(random_network(Random(seed)))
    plans = plans_under_limits(graph, 2, limits=2)
    assert list(worse_plans(plans)) == []
    assert default_factor(plans) <= 1.021


def test_no_greedy_plan_is_worse_than_one_for_another_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    plans = plans_under_limits(graph_of(random_network(Random(12))), 2, limits=4)
    assert list(worse_plans(plans)) == []


def test_a_memory_in_which_the_default_fits_is_not_refused(tmp_path: Path) -> None:
    graph = layer(12, 32)
    needed = max(choose_plan(graph, 8).prediction.needed)
    plan = plan_graph(graph, "model.onnx", PlanGoal(8, needed))
    assert plan.predicted_seconds > 0


def test_the_front_takes_a_faster_choice_with_no_more_bytes() -> None:
    graph = chain(*MLP, **SHAPES)
    plan = choose_plan(graph, 2, costs=HostCosts()).plan
    front = Front()
    for weights, matrices, seconds in ((100, 90, 3.0), (99, 95, 2.0), (120, 80, 1.0)):
        front.add(Choice(plan, Prediction([seconds], [weights], [matrices], [10]), 0.0))
    chosen = front.fastest_of(92)
    assert chosen is not None and chosen.prediction.seconds == 1.0
    chosen = front.fastest(lambda one: max(one.needed) <= 110)
    assert chosen is not None and chosen.prediction.weights == [99]
    assert front.fastest(lambda one: one.heaviest < 50) is None
    assert front.smallest(lambda one: max(one.matrices)).prediction.matrices == [80]
