"""Calls, branches and loops in forms that the exported networks do not have; those are in
test_corpus.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from functions import BOOL, F32, I32, function, model
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto
from primitives import run

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.element_types.value_types import TupleType
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.graph import StoredWeight

X = np.array([1, -2], np.float32)


def computed(proto: ModelProto, x: np.ndarray, i: int, folder: Path = Path()) -> np.ndarray:
    return run(folder, proto, {"x": x, "i": np.array(i, np.int32)})[0]


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def depth(graph: GraphProto) -> int:
    return max(
        (
            1 + depth(attribute.g)
            for node in graph.node
            for attribute in node.attribute
            if attribute.type == AttributeProto.GRAPH
        ),
        default=0,
    )


def count(proto: ModelProto, op_type: str) -> int:
    return sum(node.op_type == op_type for node in all_nodes(proto.graph))


DONE = function("done", "x", "y = Neg x", "return y")


def header(body: str = "body", name: str = "head") -> Any:
    return function(
        name,
        "i x",
        "c = Greater i 0",
        f"more = Partial {body} i x",
        "end = Partial done x",
        "go = Switch c more end",
        "r = @go",
        "return r",
        types={"c": BOOL, "r": F32},
    )


def entry(target: str = "head", arguments: str = "i x") -> Any:
    return function("main", "x i", f"r = @{target} {arguments}", "return r", types={"r": F32})


def refusal(*functions: Any, **more: Any) -> str:
    with pytest.raises(ModelError) as caught:
        lower_mindir(model(*functions, **more))
    return str(caught.value)


def test_what_no_round_changes_is_not_carried() -> None:
    body = function(
        "body",
        "i x k",
        "j = Sub i 1",
        "y = Add x k",
        "r = @head j y k",
        "return r",
        types={"j": I32, "y": F32, "r": F32},
    )
    head = function(
        "head",
        "i x k",
        "c = Greater i 0",
        "more = Partial body i x k",
        "end = Partial done x",
        "go = Switch c more end",
        "r = @go",
        "return r",
        types={"c": BOOL, "r": F32},
    )
    start = function(
        "main", "x i", "k = Exp x", "r = @head i x k", "return r", types={"k": F32, "r": F32}
    )
    proto = lower_mindir(model(start, head, body, DONE))
    (loop,) = (node for node in proto.graph.node if node.op_type == "Loop")
    assert len(loop.input) == 4 and count(proto, "Exp") == count(proto, "Neg") == 1
    np.testing.assert_allclose(computed(proto, X, 3), -(X + 3 * np.exp(X)), rtol=1e-6)
    np.testing.assert_array_equal(computed(proto, X, 0), -X)


def test_a_weight_in_a_loop_is_one_initializer_outside_of_it(tmp_path: Path) -> None:
    np.arange(2, dtype=np.float32).tofile(tmp_path / "m.mindir")
    weight = StoredWeight("w", np.dtype(np.float32), (2,), str(tmp_path / "m.mindir"), 0, 8)
    body = function(
        "body",
        "i x w",
        "j = Sub i 1",
        "y = Add x w",
        "r = @head j y w",
        "return r",
        types={"j": I32, "y": F32, "r": F32},
    )
    head = function(
        "head",
        "i x w",
        "c = Greater i 0",
        "more = Partial body i x w",
        "end = Partial done x",
        "go = Switch c more end",
        "r = @go",
        "return r",
        types={"c": BOOL, "r": F32},
    )
    proto = lower_mindir(model(entry(arguments="i x W"), head, body, DONE, weights={"W": weight}))
    assert [tensor.name for tensor in proto.graph.initializer if tensor.external_data] == ["w"]
    assert not any(
        attribute.g.initializer for node in all_nodes(proto.graph) for attribute in node.attribute
    )


def test_what_several_branches_lead_to_is_lowered_once() -> None:
    functions = []
    for n in range(14):
        functions += [
            function(
                f"if{n}",
                "i x",
                f"c = Equal i {n}",
                f"yes = Partial yes{n} i x",
                f"no = Partial no{n} i x",
                "go = Switch c yes no",
                "r = @go",
                "return r",
                types={"c": BOOL, "r": F32},
            ),
            function(
                f"yes{n}",
                "i x",
                "y = Exp x",
                f"r = @if{n + 1} i y",
                "return r",
                types={"y": F32, "r": F32},
            ),
            function(
                f"no{n}",
                "i x",
                "y = Abs x",
                f"r = @if{n + 1} i y",
                "return r",
                types={"y": F32, "r": F32},
            ),
        ]
    end = function("if14", "i x", "y = Neg x", "return y", types={"y": F32})
    proto = lower_mindir(model(entry("if0"), *functions, end))
    assert (count(proto, "Exp"), count(proto, "Abs"), count(proto, "Neg"), depth(proto.graph)) == (
        14,
        14,
        1,
        1,
    )
    np.testing.assert_allclose(computed(proto, X, 3), -np.exp(abs(X)))


def test_branches_that_go_on_in_branches_do_not_nest_without_end() -> None:
    functions = [
        function(
            f"f{n}",
            "i x",
            f"c = Equal i {n}",
            "y = Add x 1.0",
            "yes = Partial done y",
            f"no = Partial f{n + 1} i y",
            "go = Switch c yes no",
            "r = @go",
            "return r",
            types={"c": BOOL, "y": F32, "r": F32},
        )
        for n in range(100)
    ]
    end = function("f100", "i x", "return x")
    proto = lower_mindir(model(entry("f0"), *functions, end, DONE))
    assert depth(proto.graph) <= 8
    np.testing.assert_array_equal(computed(proto, X, 60), -(X + 61))
    np.testing.assert_array_equal(computed(proto, X, -1), X + 100)


def test_branches_whose_results_are_used_may_nest_so_deep_and_no_deeper() -> None:
    def nested(levels: int) -> Any:
        functions = [
            function(
                f"f{n}",
                "i x",
                f"c = Equal i {n}",
                f"yes = Partial f{n + 1} i x",
                "no = Partial done x",
                "go = Switch c yes no",
                "r = @go",
                "y = Add r 1.0",
                "return y",
                types={"c": BOOL, "y": F32, "r": F32},
            )
            for n in range(levels)
        ]
        return (entry("f0"), *functions, function(f"f{levels}", "i x", "return x"), DONE)

    np.testing.assert_array_equal(computed(lower_mindir(model(*nested(30))), X, 1), -X + 1)
    assert "branches and loops lie more than 30 deep inside each other" in refusal(*nested(31))


def test_a_known_condition_leaves_no_branch() -> None:
    start = function(
        "main", "x i", "go = Switch yes one two", "r = @go x", "return r", types={"r": F32}
    )
    one, two = (
        function("one", "x", "y = Exp x", "return y"),
        function("two", "x", "y = Abs x", "return y"),
    )
    assert [
        n.op_type for n in lower_mindir(model(start, one, two, constants={"yes": True})).graph.node
    ] == ["Exp", "Identity"]


def test_a_switch_of_values() -> None:
    start = function(
        "main",
        "x i",
        "c = Greater i 0",
        "y = Neg x",
        "r = Switch c x y",
        "return r",
        types={"c": BOOL, "y": F32, "r": F32},
    )
    proto = lower_mindir(model(start))
    np.testing.assert_array_equal(computed(proto, X, 1), X)
    np.testing.assert_array_equal(computed(proto, X, 0), -X)


@pytest.mark.parametrize("index", [0, 5, 63, -1, -64])
def test_a_switch_layer_of_many(index: int) -> None:
    closures = " ".join(f"p{n}" for n in range(64))
    start = function(
        "main",
        "x i",
        *(f"p{n} = Partial add {n}.0" for n in range(64)),
        f"t = MakeTuple {closures}",
        "go = switch_layer i t",
        "r = @go x",
        "return r",
        types={"r": F32},
    )
    proto = lower_mindir(
        model(start, function("add", "k x", "y = Add x k", "return y", types={"k": F32, "y": F32}))
    )
    assert depth(proto.graph) <= 6
    np.testing.assert_array_equal(computed(proto, X, index), X + index % 64)


def test_functions_chosen_at_run_time_and_handed_on() -> None:
    start = function(
        "main",
        "x i",
        "c = Greater i 0",
        "one = Partial add x",
        "go = Switch c one done",
        "r = @apply go x",
        "return r",
        types={"c": BOOL, "r": F32},
    )
    apply = function("apply", "f x", "y = @f x", "z = @f y", "return z", types={"y": F32, "z": F32})
    add = function("add", "k x", "y = Add x k", "return y", types={"y": F32})
    proto = lower_mindir(model(start, apply, add, DONE))
    np.testing.assert_array_equal(computed(proto, X, 1), X * 3)
    np.testing.assert_array_equal(computed(proto, X, 0), X)


def test_values_that_start_and_change_as_one_are_carried_once() -> None:
    body = function(
        "body",
        "i x k",
        "j = Sub i 1",
        "y = Add x k",
        "r = @head j y y",
        "return r",
        types={"j": I32, "y": F32, "r": F32},
    )
    head = function(
        "head",
        "i x k",
        "c = Greater i 0",
        "more = Partial body i x k",
        "end = Partial done x",
        "go = Switch c more end",
        "r = @go",
        "return r",
        types={"c": BOOL, "r": F32},
    )
    proto = lower_mindir(model(entry(arguments="i x x"), head, body, DONE))
    (loop,) = (node for node in proto.graph.node if node.op_type == "Loop")
    assert len(loop.input) == 4
    np.testing.assert_array_equal(computed(proto, X, 3), -8 * X)


def test_recursion_that_is_no_loop() -> None:
    body = function(
        "body",
        "i x",
        "j = Sub i 1",
        "r = @head j x",
        "y = Add r x",
        "return y",
        types={"j": I32, "y": F32, "r": F32},
    )
    said = refusal(entry(), header(), body, DONE)
    assert (
        "node body/r (call): calls head, inside which it lies, before that function's end" in said
    )


def test_a_loop_without_end() -> None:
    body = function("body", "i x", "r = @body i x", "return r", types={"r": F32})
    assert "node main/r (call): is a loop that never ends" in refusal(entry("body"), body)


def test_a_tuple_that_gets_longer_in_a_loop() -> None:
    body = function(
        "body",
        "i t",
        "j = Sub i 1",
        "k = MakeTuple t i",
        "r = @head j k",
        "return r",
        types={"j": I32, "r": F32},
    )
    head = function(
        "head",
        "i t",
        "c = Greater i 0",
        "more = Partial body i t",
        "end = Partial pick t",
        "go = Switch c more end",
        "r = @go",
        "return r",
        types={"c": BOOL, "r": F32, "t": TupleType(None)},
    )
    pick = function("pick", "t", "y = TupleGetItem t zero", "return y")
    start = function(
        "main", "x i", "t = MakeTuple x x", "r = @head i t", "return r", types={"r": F32}
    )
    assert "carries tuples of changing length" in refusal(
        start, head, body, pick, constants={"zero": 0}
    )


def test_branches_of_different_structure() -> None:
    one = function("one", "x", "t = MakeTuple x x", "return t")
    start = function(
        "main",
        "x i",
        "c = Greater i 0",
        "go = Switch c one done",
        "r = @go x",
        "return r",
        types={"c": BOOL, "r": F32},
    )
    assert "the branches give results of different structure" in refusal(start, one, DONE)
    said = refusal(
        start,
        function("one", "x", "y = Identity word", "return y"),
        DONE,
        constants={"word": "text"},
    )
    assert "a str (text) cannot be chosen or changed at run time" in said


# Any flow of control: every function computes something and goes on with one of two others, until
# `i` is used up.

FUNCTIONS = 6
STEPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Floor": np.floor,
    "ReLU": lambda x: np.maximum(x, 0),
}
Flow = list[tuple[str, float, int, int, int]]
flows = st.lists(
    st.tuples(
        st.sampled_from(sorted(STEPS)),
        st.sampled_from([-3.0, 0.5, 2.0]),
        *[st.integers(0, FUNCTIONS - 1)] * 2,
        st.integers(0, 2),
    ),
    min_size=FUNCTIONS,
    max_size=FUNCTIONS,
)


def functions_of(flow: Flow) -> list[Any]:
    found = []
    for n, (step, addend, first, second, way) in enumerate(flow):
        found.append(
            function(
                f"f{n}",
                "i x",
                f"a = {step} x",
                f"y = Add a {addend}",
                "j = Sub i 1",
                "c = Greater j 0",
                f"more = Partial g{n} j y",
                "end = Partial done y",
                "go = Switch c more end",
                "r = @go",
                "return r",
                types={"a": F32, "y": F32, "j": I32, "c": BOOL, "r": F32},
            )
        )
        ends = {
            0: f"one = Partial f{first} i x",
            1: "one = Partial done x",
            2: f"one = Partial h{n} i x",
        }
        found.append(
            function(
                f"g{n}",
                "i x",
                "s = SumExt x nothing no nothing",
                "c = Greater s 0.0",
                ends[way],
                f"two = Partial f{second} i x",
                "go = Switch c one two",
                "r = @go",
                "return r",
                types={"s": F32, "c": BOOL, "r": F32},
            )
        )
        if way == 2:
            found.append(
                function(
                    f"h{n}",
                    "i x",
                    "y = Muls x half",
                    f"r = @f{first} i y",
                    "return r",
                    types={"y": F32, "r": F32},
                )
            )
    return found


def interpreted(flow: Flow, x: np.ndarray, i: int) -> np.ndarray:
    at = 0
    while True:
        step, addend, first, second, way = flow[at]
        x, i = STEPS[step](x) + np.float32(addend), i - 1
        if i <= 0 or (x.sum() > 0 and way == 1):
            return -x
        if x.sum() > 0 and way == 2:
            x = x * np.float32(0.5)
            at = first
        else:
            at = first if x.sum() > 0 else second


@settings(max_examples=25, deadline=None)
@given(flows)
def test_any_flow_of_control(flow: Flow) -> None:
    constants = {"nothing": None, "no": False, "half": 0.5}
    proto = lower_mindir(model(entry("f0"), *functions_of(flow), DONE, constants=constants))
    for x, i in ((X, 1), (X, 5), (-X * 3, 12), (X * 0.3, 30)):
        expected = interpreted(flow, x, i)
        np.testing.assert_allclose(computed(proto, x, i), expected, rtol=1e-5, atol=1e-5)
