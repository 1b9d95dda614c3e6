"""Bodies of If, Loop and Scan get whole values, under the names that they capture."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from slicing import check_plan, graph_of, random_inputs

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

HEAD = '<ir_version: 9, opset_import: ["" : 18]>'

CASES = {
    "both branches take split values and terms": """
        (float[4, 6] x, bool c) => (float[4, 8] y) <float[6, 8] w = {W}, float[8, 8] v = {V}> {
            split = MatMul(x, w)
            terms = MatMul(split, v)
            chosen = If(c) <
                then_branch = g1 () => (float[4, 8] t) { t = Add(split, terms) },
                else_branch = g2 () => (float[4, 8] e) {
                    one = MatMul(split, v)
                    e = Mul(one, terms)
                }>
            y = Relu(chosen)
        }""",
    "a branch gives back what it captures": """
        (float[4, 6] x, bool c) => (float[4, 8] y) <float[6, 8] w = {W}> {
            split = MatMul(x, w)
            y = If(c) <
                then_branch = g1 () => (float[4, 8] t) { t = Identity(split) },
                else_branch = g2 () => (float[4, 8] e) { e = Neg(split) }>
        }""",
    "a condition is computed from terms": """
        (float[4, 6] x) => (float[4, 8] y) <float[6, 8] w = {W}, float zero = {0}> {
            h = MatMul(x, w)
            sum = ReduceSum<keepdims = 0>(h)
            c = Less(sum, zero)
            y = If(c) <
                then_branch = g1 () => (float[4, 8] t) { t = Neg(h) },
                else_branch = g2 () => (float[4, 8] e) { e = Exp(h) }>
        }""",
    "bodies in bodies, whose own names hide outer ones": """
        (float[4, 6] x, bool c, bool d) => (float[4, 8] y) <float[6, 8] w = {W}> {
            h = MatMul(x, w)
            r = Relu(h)
            y = If(c) <
                then_branch = g1 () => (float[4, 8] t) {
                    inner = If(d) <
                        then_branch = g3 () => (float[4, 8] tt) { tt = Add(r, h) },
                        else_branch = g4 () => (float[4, 8] te) {
                            a = MatMul(x, w)
                            te = Sub(a, r)
                        }>
                    t = Tanh(inner)
                },
                else_branch = g2 () => (float[4, 8] e) {
                    inner = Neg(r)
                    e = Add(inner, h)
                }>
        }""",
    "a loop carries a value, and stacks another": """
        (float[4, 8] x, int64 n) => (float[4, 8] y, float[k, 4, 8] all)
        <float[8, 8] v = {V}, bool go = {1}> {
            h = MatMul(x, v)
            y, all = Loop(n, go, h) <
                body = g (int64 i, bool c, float[4, 8] before)
                    => (bool again, float[4, 8] after, float[4, 8] scanned) {
                    again = Identity(c)
                    product = MatMul(before, v)
                    sum = Add(product, h)
                    after = Tanh(sum)
                    scanned = Mul(after, x)
                }>
        }""",
    "a scan over rows": """
        (float[8] s, float[4, 8] x) => (float[8] y, float[4, 8] all) <float[8, 8] v = {V}> {
            h = MatMul(x, v)
            start = Relu(s)
            y, all = Scan<num_scan_inputs = 1,
                body = g (float[8] before, float[8] row) => (float[8] after, float[8] out) {
                    product = MatMul(before, v)
                    sum = Add(product, row)
                    after = Tanh(sum)
                    out = Neg(after)
                }>(start, h)
        }""",
    "a scan takes a split value and terms from outside": """
        (float[8] s, float[4, 8] x) => (float[8] y, float[4, 8] all) <float[8, 8] v = {V}> {
            split = MatMul(s, v)
            terms = MatMul(split, v)
            y, all = Scan<num_scan_inputs = 1,
                body = g (float[8] before, float[8] row) => (float[8] after, float[8] out) {
                    sum = Add(split, row)
                    after = Mul(before, terms)
                    out = Tanh(sum)
                }>(s, x)
        }""",
    "a loop in a branch takes values from outside both": """
        (float[4, 8] x, bool c, int64 n) => (float[4, 8] y)
        <float[8, 8] v = {V}, bool go = {1}> {
            split = MatMul(x, v)
            terms = MatMul(split, v)
            chosen = If(c) <
                then_branch = g1 () => (float[4, 8] t) {
                    own = Neg(split)
                    t = Loop(n, go, own) <
                        body = g (int64 i, bool k, float[4, 8] before)
                            => (bool again, float[4, 8] after) {
                            again = Identity(k)
                            sum = Add(before, terms)
                            product = Mul(own, split)
                            after = Sub(sum, product)
                        }>
                },
                else_branch = g2 () => (float[4, 8] e) { e = Relu(terms) }>
            y = MatMul(chosen, v)
        }""",
}


def numbers(*shape: int) -> str:
    values = np.random.default_rng(3).standard_normal(shape).round(2).reshape(-1)
    return ", ".join(map(str, values))


def text_of(name: str) -> str:
    return (
        HEAD
        + "graph"
        + CASES[name].replace("W}", numbers(6, 8) + "}").replace("V}", numbers(8, 8) + "}")
    )


@pytest.mark.parametrize("name", CASES)
def test_bodies(name: str) -> None:
    graph = graph_of(parser.parse_model(text_of(name)))
    for flag in (0, 1):
        feeds = dict(random_inputs(graph.model, {}))
        for key in feeds.keys() & {"c", "d"}:
            feeds[key] = np.array(bool(flag))
        if "n" in feeds:
            feeds["n"] = np.array(3 * flag, np.int64)
        expected = run_model(graph.model.clone(), feeds)
        for ranks in (2, 3):
            found = propagate(graph, ranks)
            for seed in range(6):
                check_plan(graph, random_plan(graph, found, ranks, seed), feeds, expected)


def test_random_operators_in_a_body_are_refused() -> None:
    text = """graph (float[4] x, bool c) => (float[4] y) {
        y = If(c) <
            then_branch = g1 () => (float[4] t) { t = RandomUniformLike(x) },
            else_branch = g2 () => (float[4] e) { e = Neg(x) }>
    }"""
    with pytest.raises(ModelError, match="draws random numbers"):
        graph_of(parser.parse_model(HEAD + text))
