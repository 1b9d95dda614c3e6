"""Every strategy of onnxruntime's fused operators gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from slicing import check_plan, check_strategies, graph_of, one_node

from rankmesh.compiler.slicing.emission.trial import relative_error, run_model
from rankmesh.compiler.slicing.placement.placements import SUM
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

DRAW = np.random.default_rng(7)
MS = "com.microsoft"


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("skip", [(4, 5, 8), (1, 5, 8), (5, 8)])
@pytest.mark.parametrize("simplified", [False, True])
def test_skip_normalization(skip: tuple[int, ...], simplified: bool) -> None:
    operator = "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization"
    arrays = [normal(4, 5, 8), normal(*skip), normal(8), normal(8)]
    arrays += [] if simplified else [normal(8)]
    node, feeds = one_node(operator, arrays, (2, 3, 4), 4, MS)
    for statistics in (2, 1):  # these outputs have no values on the CPU
        node.graph.node[0].output[statistics] = ""
        del node.graph.output[statistics]
    check_strategies(node, feeds, least=2)


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_normalization_that_only_onnxruntime_knows(operator: str) -> None:
    model = one_node(operator, [normal(4, 5, 8), normal(8)], (1,), opset=13, axis=-1)
    check_strategies(*model, least=2)


def embedding(mask: bool, positions: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    ids = DRAW.integers(0, 7, (4, 5)).astype(np.int32)
    arrays: list[np.ndarray | None] = [ids, ids % 2, normal(9, 8), normal(6, 8), normal(2, 8)]
    arrays += [normal(8), normal(8), (ids > 2).astype(np.int32) if mask else None]
    arrays += [DRAW.integers(0, 6, (4, 5)).astype(np.int32)] if positions else []
    model, feeds = one_node("EmbedLayerNormalization", arrays, (2, 3, 4, 5, 6), 3, MS)
    return model, feeds


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_fused_embedding_is_expanded(mask: bool, positions: bool) -> None:
    model, feeds = embedding(mask, positions)
    if not mask:  # the output counts what the mask lets through
        del model.graph.output[1]
    whole = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, feeds)
    graph = graph_of(model)
    assert "EmbedLayerNormalization" not in [node.op_type for node in graph.nodes]
    assert relative_error(run_model(graph.model.clone(), feeds), whole) < 1e-6
    for ranks in (2, 3):
        found = propagate(graph, ranks)
        lookups = [s for s in found.strategies.values() if SUM in (t for u in s for t in u.outputs)]
        assert lookups, "the vocabulary is not split"
        for seed in range(4):
            check_plan(graph, random_plan(graph, found, ranks, seed), feeds, whole)


@pytest.mark.parametrize("positions", [False, True])
def test_fused_embedding_whose_missing_mask_is_counted(positions: bool) -> None:
    check_strategies(*embedding(False, positions), least=1)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("batch", [(), (4,)])
def test_fused_matmul(transposed: tuple[int, int], batch: tuple[int, ...]) -> None:
    a = (6, 5) if transposed[0] else (5, 6)
    b = (7, 6) if transposed[1] else (6, 7)
    model = one_node(
        "FusedMatMul",
        [normal(*batch, *a), normal(*batch, *b)],
        (1,),
        domain=MS,
        transA=transposed[0],
        transB=transposed[1],
        alpha=0.5,
    )
    check_strategies(*model, least=3)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 1)])
def test_fused_gemm(transposed: tuple[int, int]) -> None:
    a = (6, 5) if transposed[0] else (5, 6)
    b = (7, 6) if transposed[1] else (6, 7)
    model = one_node(
        "FusedGemm",
        [normal(*a), normal(*b), normal(7)],
        (1, 2),
        domain=MS,
        transA=transposed[0],
        transB=transposed[1],
        activation="Relu",
    )
    check_strategies(*model, least=2)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("skip", [False, True])
def test_fused_conv(groups: int, skip: bool) -> None:
    arrays = [normal(4, 8, 5, 5), normal(12, 8 // groups, 3, 3), normal(12)]
    arrays += [normal(4, 12, 5, 5)] if skip else []
    model = one_node(
        "FusedConv", arrays, (1, 2), domain=MS, group=groups, pads=[1] * 4, activation="Relu"
    )
    check_strategies(*model, least=3)


@pytest.mark.parametrize("operator", ["BiasGelu", "FastGelu", "QuickGelu", "Gelu"])
def test_activations(operator: str) -> None:
    arrays = [normal(4, 5, 8), normal(8)][: 2 if operator in ("BiasGelu", "FastGelu") else 1]
    check_strategies(*one_node(operator, arrays, (1,), domain=MS), least=3)
