"""Graphs that are easily sliced wrong: random plans of them give what the whole graph gives."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from slicing import check_plan, check_strategies, graph_of, random_inputs

from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.placement.placements import Split
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

HEAD = '<ir_version: 9, opset_import: ["" : 18, "own" : 1]>'

CASES = {
    "two lookups and a projection share one vocabulary": (
        """(int64[b, s] ids, int64[b, s] more) => (float[b, s, 11] y)
        <float[11, 6] table = {TABLE}> {
            a = Gather(table, ids)
            c = Gather(table, more)
            sum = Add(a, c)
            turned = Transpose<perm = [1, 0]>(table)
            y = MatMul(sum, turned)
        }""",
        {"b": 2, "s": 3},
    ),
    "negative ids": (
        """(int64[b, s] ids) => (float[b, s, 6] y) <float[11, 6] table = {TABLE}, int64 back = {-8}>
        {
            low = Add(ids, back)
            y = Gather(table, low)
        }""",
        {"b": 2, "s": 3},
    ),
    "an infinite mask on a sum of terms": (
        """(float[b, 4, 6] x, float[6, 5] w, float[b, 1, 5] m) => (float[b, 4, 5] y)
        <float zero = {0}, float none = {-inf}> {
            p = MatMul(x, w)
            hidden = Less(m, zero)
            mask = Where(hidden, none, zero)
            masked = Add(p, mask)
            y = Softmax(masked)
        }""",
        {"b": 2},
    ),
    "shape and size of a split value": (
        """(float[b, 6, 8] x) => (int64[3] y, int64 z, float[b, 48] t) {
            r = Relu(x)
            y = Shape(r)
            z = Size(r)
            t = Flatten(r)
        }""",
        {"b": 2},
    ),
    "reshape to computed sizes with zero and minus one": (
        """(float[b, s, 24] x) => (float[b, 4, s, 6] y, float[n, 24] back)
        <int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[2] heads = {4, 6},
         int64[2] flat = {-1, 24}, int64[3] merged = {0, -1, 24}> {
            r = Relu(x)
            shape = Shape(r)
            number = Gather(shape, one)
            many = Unsqueeze(number, first)
            target = Concat<axis = 0>(first, many, heads)
            h = Reshape(r, target)
            y = Transpose<perm = [0, 2, 1, 3]>(h)
            t = Transpose<perm = [0, 2, 1, 3]>(y)
            m = Reshape(t, merged)
            back = Reshape(m, flat)
        }""",
        {"b": 2, "s": 3},
    ),
    "expand to a computed shape": (
        """(float[b, s, 4, 6] x) => (float[b, s, 4, 3, 6] y)
        <int64[1] two = {2}, int64[1] zero = {0}, int64[3] tail = {4, 3, 6}, int64[1] third = {3}> {
            r = Relu(x)
            shape = Shape(r)
            head = Slice(shape, zero, two)
            target = Concat<axis = 0>(head, tail)
            u = Unsqueeze(r, third)
            y = Expand(u, target)
        }""",
        {"b": 2, "s": 3},
    ),
    "mean over uneven parts": (
        """(float[b, 7, 5] x) => (float[b, 7, 5] y) <int64[1] last = {-1}, int64[1] mid = {1}> {
            r = Relu(x)
            a = ReduceMean(r, last)
            c = Sub(r, a)
            d = ReduceMean(c, mid)
            y = Mul(c, d)
        }""",
        {"b": 2},
    ),
    "an initializer that is an input": (
        """(float[b, 6] x, float[6, 4] w) => (float[b, 4] y) <float[6, 4] w = {WEIGHT}> {
            y = MatMul(x, w)
        }""",
        {"b": 3},
    ),
    "dropout in inference": (
        """(float[b, 6] x) => (float[b, 6] y) <float ratio = {0.5}> {
            d, mask = Dropout(x, ratio)
            y = Relu(d)
        }""",
        {"b": 3},
    ),
}


def case(text: str) -> onnx.ModelProto:
    draw = np.random.default_rng(1)
    for word, count in (("TABLE", 66), ("WEIGHT", 24)):
        numbers = draw.standard_normal(count)
        text = text.replace(word, ", ".join(f"{number:.6f}" for number in numbers))
    return parser.parse_model(f"{HEAD} main {text.replace('-inf', '-3.0e38')}")


def infinite(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with minus infinity for the number that stands for it in its text."""
    for weight in model.graph.initializer:
        array = onnx.numpy_helper.to_array(weight)
        if array.dtype == np.float32 and (array < -1e38).any():
            changed = onnx.numpy_helper.from_array(np.full_like(array, -np.inf), weight.name)
            weight.CopyFrom(changed)
    return model


@pytest.mark.parametrize("name", CASES)
def test_trap(name: str) -> None:
    text, sizes = CASES[name]
    graph = graph_of(infinite(case(text)))
    feeds = random_inputs(graph.model, sizes)
    expected = run_model(graph.model.clone(), feeds)
    split = 0
    for ranks in (2, 3):
        found = propagate(graph, ranks)
        for seed in range(6):
            plan = random_plan(graph, found, ranks, seed)
            placements = [
                p for one in plan.strategies.values() for p in (*one.inputs, *one.outputs)
            ]
            split += any(isinstance(one, Split) for one in placements)
            check_plan(graph, plan, feeds, expected)
    assert split, "no plan splits anything"


def test_functions_are_sliced_as_their_nodes() -> None:
    model = parser.parse_model(
        f"""{HEAD} main (float[4, 6] x, float[6, 8] w) => (float[4, 8] y) {{
            y = own.product(x, w)
        }}
        <domain: "own", opset_import: ["" : 18]> product (a, b) => (c) {{
            d = MatMul(a, b)
            c = Relu(d)
        }}"""
    )
    draw = np.random.default_rng(1)
    feeds = {
        "x": draw.standard_normal((4, 6)).astype(np.float32),
        "w": draw.standard_normal((6, 8)).astype(np.float32),
    }
    check_strategies(model, feeds, ranks=(2,), least=4)


def test_nodes_without_names() -> None:
    model = parser.parse_model(
        f"{HEAD} main (float[4, 6] x) => (float[4, 6] y) {{ a = Relu(x) y = Exp(a) }}"
    )
    for node in model.graph.node:
        node.name = ""
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)}
    check_strategies(model, feeds, ranks=(2,), least=4)
