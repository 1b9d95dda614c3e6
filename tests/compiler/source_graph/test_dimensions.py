"""Dimensions of values: with names that are sums of others, short tables, and bodies."""

from __future__ import annotations

import pytest
from onnx import parser
from slicing import graph_of

from rankmesh.compiler.slicing.placement.placements import split
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.source_graph.dims import Dims, fixed
from rankmesh.compiler.source_graph.source_graph import SourceGraph

pytestmark = pytest.mark.pure
HEAD = '<ir_version: 9, opset_import: ["" : 18]>'


def graph(text: str) -> SourceGraph:
    return graph_of(parser.parse_model(f"{HEAD} main {text}"))


def sizes(dims: Dims) -> list[int | None]:
    return [fixed(dim) for dim in dims]


def test_a_mask_as_long_as_past_and_sequence_together() -> None:
    found = graph(
        """(float[batch, 4, sequence, 8] q, float[batch, 4, past, 8] old, float[batch, total] mask)
        => (float[batch, 4, sequence, 8] y) <int64[2] axes = {1, 2}> {
            k = Concat<axis = 2>(old, q)
            t = Transpose<perm = [0, 1, 3, 2]>(k)
            scores = MatMul(q, t)
            wide = Unsqueeze(mask, axes)
            masked = Add(scores, wide)
            p = Softmax(masked)
            y = MatMul(p, k)
        }"""
    )
    assert sizes(found.dims["y"]) == [None, 4, None, 8]
    assert found.dims["mask"][1] == found.dims["k"][2]


def test_sizes_that_a_table_of_positions_allows() -> None:
    found = graph(
        """(float[batch, sequence, 6] x, float[32, 6] table) => (float[batch, sequence, 6] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
            shape = Shape(x)
            length = Slice(shape, one, two)
            own = Slice(table, zero, length)
            y = Add(x, own)
        }"""
    )
    assert sizes(found.dims["y"]) == [None, None, 6]


def test_sizes_that_a_table_of_positions_has_rows_for() -> None:
    found = graph(
        """(float[batch, sequence, 6] x, float[32, 6] table) => (float[batch, sequence, 6] y)
        <int64[1] one = {1}, int64 none = {0}, int64 step = {1}> {
            shape = Shape(x)
            length = Gather(shape, step)
            positions = Range(none, length, step)
            own = Gather(table, positions)
            y = Add(x, own)
        }"""
    )
    assert [chosen["sequence"] for chosen in found.size_choices] == [32, 5, 1]


def test_an_image_of_any_size_is_large_enough_for_its_strides() -> None:
    found = graph(
        """(float[n, 3, height, width] x, float[8, 3, 16, 16] w) => (float[n, 8, h, k] y) {
            y = Conv<strides = [16, 16]>(x, w)
        }"""
    )
    assert sizes(found.dims["y"]) == [None, 8, None, None]


def test_both_branches_have_the_shape() -> None:
    found = graph(
        """(float[b, 6] x, bool c) => (float[b, 6] y) {
            y = If(c) <then_branch = g1 () => (float[m, 6] a) { a = Relu(x) },
                       else_branch = g2 () => (float[m, 6] d) { d = Neg(x) }>
        }"""
    )
    assert sizes(found.dims["y"]) == [None, 6]


def test_branches_of_other_shapes_are_unknown() -> None:
    found = graph(
        """(float[1, 6] x, bool c) => (y) <int64[1] zero = {0}> {
            y = If(c) <then_branch = g1 () => (a) { a = Squeeze(x, zero) },
                       else_branch = g2 () => (d) { d = Neg(x) }>
        }"""
    )
    assert "y" not in found.dims


def test_a_branch_that_the_shapes_pick() -> None:
    found = graph(
        """(float[1, 6] x) => (y) <int64 one = {1}, int64 first = {0}, int64[1] zero = {0}> {
            shape = Shape(x)
            number = Gather(shape, first)
            c = Equal(number, one)
            y = If(c) <then_branch = g1 () => (a) { a = Squeeze(x, zero) },
                       else_branch = g2 () => (d) { d = Neg(x) }>
        }"""
    )
    assert sizes(found.dims["y"]) == [6]


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        ("Add(s, x)", [4, 6]),
        ("Concat<axis = 0>(s, x)", [None, 6]),
        ("Concat<axis = 1>(s, s)", [4, None]),
        ("Unsqueeze(s, zero)", None),
    ],
)
def test_values_that_a_loop_carries(update: str, wanted: list[int | None] | None) -> None:
    """Whatever the body declares: a size that turns change is open."""
    found = graph(
        f"""(float[4, 6] x, int64 n, bool c) => (y) <int64[1] zero = {{0}}> {{
            y = Loop(n, c, x) <body = g (int64 i, bool go, float[4, 6] s)
                => (bool more, float[4, 6] t) {{
                more = Identity(go)
                t = {update}
            }}>
        }}"""
    )
    dims = found.dims.get("y")
    assert (None if dims is None else sizes(dims)) == wanted


def test_rows_that_a_loop_gives_and_branches_of_several_sizes() -> None:
    """False declarations do not count, and the type is known without any."""
    found = graph(
        """(float[4, 6] x, int64 n, bool c) => (float[9, 9] s, float[9] d)
        <float[3] rows, float[1, 6] either> {
            y, rows = Loop(n, c, x) <body = g (int64 i, bool go, float[4, 6] s)
                => (bool more, float[4, 6] t, float[2] row) {
                more = Identity(go)
                t = Neg(s)
                row = Exp(s)
            }>
            s = Sin(rows)
            either = If(c) <then_branch = g1 () => (a) { a = Concat<axis = 0>(x, x) },
                            else_branch = g2 () => (d) { d = Neg(x) }>
            d = Sin(either)
        }"""
    )
    assert [sizes(found.dims[name]) for name in ("rows", "s")] == [[None, 4, 6]] * 2
    assert [sizes(found.dims[name]) for name in ("either", "d")] == [[None, 6]] * 2


def test_what_happens_for_the_smallest_size_alone_is_no_constant() -> None:
    found = graph(
        """(float[batch, 6] x) => (float[batch, 6] y, int64 least)
        <int64 first = {0}, int64 two = {2}> {
            y = Relu(x)
            shape = Shape(x)
            number = Gather(shape, first)
            least = Min(number, two)
        }"""
    )
    assert "least" not in found.constants


def test_where_a_constant_is_not_zero() -> None:
    found = graph(
        """(float[4, 6] x) => (float[n, 6] y) <bool[4] kept = {1, 0, 1, 1}> {
            places = NonZero(kept)
            rows = Transpose(places)
            y = GatherND(x, rows)
        }"""
    )
    assert sizes(found.dims["y"]) == [3, 6]


def test_something_of_an_unknown_shape_is_written_into_a_known_one() -> None:
    found = graph(
        """(float[4, 6] x, float[4] flags) => (float[4, 6] y) {
            found = NonZero(flags)
            places = Transpose(found)
            rows = GatherND(x, places)
            y = ScatterND(x, places, rows)
        }"""
    )
    assert sizes(found.dims["rows"]) == [None, 6]
    assert sizes(found.dims["y"]) == [4, 6]


def test_experts_whose_tokens_the_input_counts() -> None:
    found = graph(
        """(float[8, 6] x, int64[2] counts, float[6, 5] first, float[6, 5] second)
        => (float[n, 5] y, int64[1] all) {
            a, b = Split<axis = 0>(x, counts)
            c = MatMul(a, first)
            d = MatMul(b, second)
            y = Concat<axis = 0>(c, d)
            all = Shape<start = 0, end = 1>(y)
        }"""
    )
    assert sizes(found.dims["a"]) == sizes(found.dims["b"]) == [None, 6]
    assert found.dims["c"][0] == found.dims["a"][0] != found.dims["b"][0]
    assert "all" not in found.constants
    (name,) = (node.name for node in found.nodes if node.outputs[0].name == "c")
    parts = [one.inputs[1] for one in propagate(found, 2).strategies[str(name)]]
    assert split(1, [0, 3, 5]) in parts and split(0, [0, 3, 6]) in parts
