"""The chosen plan: Megatron's form, the least cost, and the collectives that were predicted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from plan_graphs import DRAW, MLP, SHAPES, chain, layer
from slicing import check_plan
from tiny_transformer import tiny_transformer

from rankmesh.compiler.slicing.emission.conversions import convertible
from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.stage_layout import stage_layout
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import WHOLE
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import HostCosts, collectives, itemsize, weight_bytes
from rankmesh.compiler.slicing.planning.needed_conversions import with_conversions
from rankmesh.compiler.slicing.planning.prediction import predict
from rankmesh.compiler.slicing.planning.propagate import Candidates, propagate
from rankmesh.compiler.slicing.planning.stage_weights import stage_weights
from rankmesh.compiler.slicing.search.choice_task import Choice
from rankmesh.compiler.slicing.search.choose import STEPS, choose_plan
from rankmesh.compiler.slicing.search.classes import classes_of
from rankmesh.compiler.slicing.search.solution import StorageLimit
from rankmesh.compiler.slicing.slicer import plan_slices
from rankmesh.compiler.source_graph.source_graph import SourceGraph

pytest.importorskip("highspy", reason="highspy is not installed: pip install 'rankmesh[slice]'")


def test_a_feed_forward_block_is_split_by_columns_then_rows() -> None:
    graph = chain(*MLP, **SHAPES)
    for ranks in (2, 3, 4, 5):
        choice = choose_plan(graph, ranks)
        kinds = [(str(one.before), str(one.after)) for one in choice.plan.conversions]
        assert kinds == [("partial(sum)", "replicated")]
        assert choice.prediction.heaviest <= 1.02 * 2 * 64 * 4 * -(-256 // ranks)


@pytest.mark.parametrize("ranks", [5, 8])
def test_heads_that_ranks_do_not_divide_need_two_sums_where_collectives_are_dear(
    ranks: int,
) -> None:
    choice = choose_plan(layer(12, 32), ranks, costs=HostCosts(latency=1e-4))
    kinds = [str(one.before) for one in choice.plan.conversions]
    assert kinds == ["partial(sum)", "partial(sum)"]
    assert choice.prediction.heaviest <= 1.10 * sum(choice.prediction.weights) / ranks


def test_a_memory_of_the_whole_model_may_be_used() -> None:
    graph = chain(*MLP, **SHAPES)
    slow = HostCosts(latency=1.0)
    assert choose_plan(graph, 2, memory=1 << 30, costs=slow).plan.conversions == ()


def cost(graph: SourceGraph, plan: SlicePlan, price: float) -> float:
    (weights,) = stage_weights(graph, plan, stage_layout(graph, plan))
    stored = sum(weight_bytes(graph.weights[name], placement) for name, placement in weights)
    return predict(graph, plan, HostCosts()).seconds + price * stored


def brute_force(graph: SourceGraph, found: Candidates, price: float) -> float:
    """The least cost of all plans."""
    names = [str(node.name) for node in graph.nodes]
    best = float("inf")
    for combination in product(*(found.strategies[name] for name in names)):
        strategies = dict(zip(names, combination, strict=True))
        if _possible(graph, strategies):
            plan = with_conversions(graph, strategies, 2)
            best = min(best, cost(graph, plan, price))
    return best


def _possible(graph: SourceGraph, strategies: Mapping[str, Strategy]) -> bool:
    produced = {"x": WHOLE}
    for node in graph.nodes:
        chosen = strategies[str(node.name)]
        for value, needed in zip(node.inputs, chosen.inputs, strict=True):
            before = produced.get(str(value.name), needed)
            if before != needed and not convertible(before, needed):
                return False
        produced[str(node.outputs[0].name)] = chosen.outputs[0]
    return all(one == WHOLE or convertible(one, WHOLE) for one in [produced["y"]])


GRAPHS = {
    "mlp": (MLP, SHAPES),
    "softmax": (
        (("MatMul", ["x", "up"], "h"), ("Softmax", ["h"], "a"), ("MatMul", ["a", "down"], "y")),
        SHAPES,
    ),
    "residual": ((*MLP[:2], ("MatMul", ["a", "down"], "d"), ("Add", ["x", "d"], "y")), SHAPES),
    "shared": (
        (("MatMul", ["x", "up"], "h"), ("Tanh", ["x"], "t"), ("MatMul", ["t", "up"], "u"),
         ("Mul", ["h", "u"], "y")),
        {"up": (64, 96)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("price", [0.0, 1e-9, 1e-6])
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_the_solver_finds_the_best_of_all_plans(name: str, price: float) -> None:
    from rankmesh.compiler.slicing.search.solve import SliceProgram

    nodes, weights = GRAPHS[name]
    graph = chain(*nodes, **weights)
    found = propagate(graph, 2)
    program = SliceProgram(graph, found, classes_of(graph, found), HostCosts())
    solution = program.solve(price, time.monotonic() + 60)
    assert solution is not None
    plan = with_conversions(graph, solution.strategies, 2)
    least = brute_force(graph, found, price)
    assert cost(graph, plan, price) <= least * 1.005  # the solver ends within half a percent


def fastest(graph: SourceGraph, found: Candidates, nbytes: int) -> float:
    """The least predicted time of all plans whose ranks store at most `nbytes`."""
    names = [str(node.name) for node in graph.nodes]
    best = float("inf")
    for combination in product(*(found.strategies[name] for name in names)):
        strategies = dict(zip(names, combination, strict=True))
        if _possible(graph, strategies):
            one = predict(graph, with_conversions(graph, strategies, 2), HostCosts())
            if one.heaviest <= nbytes:
                best = min(best, one.seconds)
    return best


@pytest.mark.parametrize("share", [0.5, 0.7, 0.8, 1.0])
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_a_limit_of_bytes_gives_the_fastest_plan_that_keeps_it(name: str, share: float) -> None:
    from rankmesh.compiler.slicing.search.solve import SliceProgram

    nodes, weights = GRAPHS[name]
    graph = chain(*nodes, **weights)
    found = propagate(graph, 2)
    nbytes = int(share * sum(weight_bytes(one, WHOLE) for one in graph.weights.values())) + 100
    program = SliceProgram(graph, found, classes_of(graph, found), HostCosts())
    solution = program.solve(0.0, time.monotonic() + 60, StorageLimit(nbytes, vectors=True))
    assert solution is not None and solution.least is not None
    one = predict(graph, with_conversions(graph, solution.strategies, 2), HostCosts())
    least = fastest(graph, found, nbytes)
    assert one.heaviest <= nbytes
    assert solution.least - 1e-12 <= least <= one.seconds <= least * 1.01 + 1e-12


def test_a_limit_that_no_plan_keeps() -> None:
    from rankmesh.compiler.slicing.search.solve import SliceProgram

    graph = chain(*MLP, **SHAPES)
    found = propagate(graph, 2)
    program = SliceProgram(graph, found, classes_of(graph, found), HostCosts())
    limit = StorageLimit(64 * 256 * 4 - 1000, vectors=True)
    assert program.solve(0.0, time.monotonic() + 60, limit) is None


def test_a_search_that_ends_too_early_is_not_worse_than_the_greedy_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rankmesh.compiler.slicing.search.limit_search import LimitSearch

    graph = chain(*MLP, **SHAPES)
    best = choose_plan(graph, 2)
    found = propagate(graph, 2)
    first = {name: some[0] for name, some in found.strategies.items()}
    whole = SlicePlan(2, first)
    poor = Choice(whole, predict(graph, whole, HostCosts()), gap=0.9)
    monkeypatch.setattr(LimitSearch, "choice", lambda self: poor)
    chosen = choose_plan(graph, 2)
    assert chosen.prediction.weights == best.prediction.weights
    least = 0.1 * poor.prediction.seconds
    assert chosen.gap == pytest.approx(max(0.0, 1 - least / chosen.prediction.seconds))

    def late(self: LimitSearch) -> Choice:
        raise TimeoutError

    monkeypatch.setattr(LimitSearch, "choice", late)
    assert choose_plan(graph, 2).gap is None
    assert choose_plan(graph, 2).prediction.weights == best.prediction.weights


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_predicted_collectives_are_those_of_the_shards(name: str, ranks: int) -> None:
    nodes, weights = GRAPHS[name]
    graph = chain(*nodes, **weights)
    plan = choose_plan(graph, ranks).plan
    values = {str(value.name): value for node in graph.nodes for value in node.outputs}
    predicted = Counter(
        one.kind
        for c in plan.conversions
        for one in collectives(
            graph.dims[c.value], itemsize(values.get(c.value)), c.before, c.after, ranks
        )
    )
    for rank in range(ranks):
        model = local_model(graph, plan, rank)
        assert predicted == Counter(n.op_type for n in model.graph if n.domain == "rankmesh")
    feeds = {"x": DRAW.standard_normal((2, 8, 64)).astype(np.float32)}
    from rankmesh.compiler.slicing.emission.trial import run_model

    check_plan(graph, plan, feeds, run_model(graph.model.clone(), feeds))


def test_memory_counts_weights_and_activations() -> None:
    graph = chain(*MLP, **SHAPES)
    choice = choose_plan(graph, 2)
    x, h = 2 * 8 * 64 * 4, 2 * 8 * 128 * 4
    assert choice.prediction.weights == [2 * 64 * 128 * 4] * 2
    # Relu's input and output, beside nothing else, are the most; the Partial and its sum are less
    assert choice.prediction.activations == [max(2 * h, x + h, h + x)]


def test_a_memory_that_is_too_small_gives_the_smallest_plan() -> None:
    graph = chain(*MLP, **SHAPES)
    smallest = choose_plan(graph, 4)
    assert choose_plan(graph, 4, memory=1).prediction.weights == smallest.prediction.weights


def test_the_steps_of_a_choice_are_told() -> None:
    told: list[None] = []
    choose_plan(chain(*MLP, **SHAPES), 2, step=lambda: told.append(None))
    assert len(told) == STEPS


@pytest.mark.parametrize("memory", [None, 1 << 30])
def test_progress_of_planning_begins_at_none_and_ends_at_all(
    memory: int | None, tmp_path: Path
) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(tiny_transformer()[0], str(model))
    told: list[tuple[str, int, int]] = []
    plan_slices(str(model), 2, memory, progress=lambda *one: told.append(one))
    assert {what for what, _, _ in told} == {"plan"}
    shares = [done / of for _, done, of in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
