"""Tuples and ranges of Python numbers, known or not."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives import Writer, check, run

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

X = np.zeros((2, 3), np.float32)
CASES: list[tuple[str, list[Any], Any]] = [
    ("make_range", [1, 9, 3], (1, 4, 7)),
    ("make_range", [2, None, None], (0, 1)),
    ("make_range", [3, 0, -1], (3, 2, 1)),
    ("tuple_setitem", [(1, 2, 3), -2, 9], (1, 9, 3)),
    ("tuple_setitem", [(1, 2, 3), -1, 9], (1, 2, 9)),
    ("tuple_setitem", [(1, 2, 3), 0, 9], (9, 2, 3)),
    ("ListAppend", [(1, 2), 3], (1, 2, 3)),
    ("SequenceAdd", [(1, 2), (3,)], (1, 2, 3)),
    ("SequenceMul", [(1, 2), 2], (1, 2, 1, 2)),
    ("SequenceSlice", [(1, 2, 3, 4), 3, 0, -2], (4, 2)),
]
NUMBERS: list[tuple[str, list[Any], int]] = [
    ("sequence_len", [(4, 5, 6)], 3),
    ("SequenceMax", [(4, 6, 5)], 6),
    ("SequenceMin", [(4, 3, 5)], 3),
    ("InSequence", [5, (4, 5)], 1),
    ("InSequence", [7, (4, 5)], 0),
    ("InSequence", [7, ()], 0),
    ("tuple_equal", [(1, (2, 3)), (1, (2, 3))], 1),
    ("tuple_equal", [(1, (2, 3)), (1, (2, 4))], 0),
    ("tuple_equal", [(1, 2), (1, 2, 3)], 0),
    ("tuple_equal", [(1, 2), (1, (2,))], 0),
    ("list_equal", [(), ()], 1),
    ("tuple_lt", [(1, 2), (1, 3)], 1),
    ("tuple_greater_equal", [(1, 2), (1, 3)], 0),
]


def settled(folder: Path, primitive: str, arguments: list[Any], made: str, expected: Any) -> None:
    """A result is known when the model is built, and as a tensor it is what is expected."""
    writer, reference = Writer(), np.array(expected, np.int64)
    output = writer.node(made, [writer.node(primitive, arguments, None), 35], reference)
    proto = lower_mindir(read_model(str(writer.save(folder / "one.mindir", output, reference))))
    (got,) = run(folder, proto, {})
    np.testing.assert_array_equal(got, reference)
    assert {node.op_type for node in proto.graph.node} == {"Identity"}


@pytest.mark.parametrize(("primitive", "arguments", "expected"), CASES)
def test_tuples(
    tmp_path: Path, primitive: str, arguments: list[Any], expected: tuple[int, ...]
) -> None:
    settled(tmp_path, primitive, arguments, "TupleToTensor", expected)


@pytest.mark.parametrize(("primitive", "arguments", "expected"), NUMBERS)
def test_numbers(tmp_path: Path, primitive: str, arguments: list[Any], expected: int) -> None:
    settled(tmp_path, primitive, arguments, "ScalarToTensor", expected)


@pytest.mark.parametrize(("size", "wanted"), [(2, True), (4, False)])
@pytest.mark.parametrize(
    ("primitive", "arguments"), [("tuple_equal", ["shape", (2, 3)]), ("InSequence", [2, "shape"])]
)
def test_sizes_known_at_run_time(
    tmp_path: Path, primitive: str, arguments: list[Any], size: int, wanted: bool
) -> None:
    writer = Writer(dynamic=True)
    shape = writer.node("Shape", [writer.argument(X)], (2, 3))
    found = writer.node(primitive, [shape if a == "shape" else a for a in arguments], None)
    output = writer.node("ScalarToTensor", [found, 30], np.array(True))
    proto = lower_mindir(
        read_model(str(writer.save(tmp_path / "one.mindir", output, np.array(True))))
    )
    (got,) = run(tmp_path, proto, {"x0": np.zeros((size, 3), np.float32)})
    assert bool(got) is wanted


ORDERS = {
    "lt": operator.lt,
    "le": operator.le,
    "greater_than": operator.gt,
    "greater_equal": operator.ge,
}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("other", [(2, 3), (2, 2), (2, 4), (1, 9), (2,), (2, 3, 0), ()])
@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_order_of_sizes_known_at_run_time(
    tmp_path: Path, kind: str, other: tuple[int, ...], size: int
) -> None:
    writer = Writer(dynamic=True)
    shape = writer.node("Shape", [writer.argument(X)], (2, 3))
    found = [
        writer.node(
            "ScalarToTensor",
            [writer.node(f"{kind}_{order}", [shape, other], None), 30],
            np.array(True),
        )
        for order in ORDERS
    ]
    wanted = tuple(np.array(python((size, 3), other)) for python in ORDERS.values())
    proto = lower_mindir(
        read_model(
            str(writer.save(tmp_path / "one.mindir", writer.node("MakeTuple", found, None), wanted))
        )
    )
    got = run(tmp_path, proto, {"x0": np.zeros((size, 3), np.float32)})
    assert [bool(value) for value in got] == [bool(value) for value in wanted]


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("back", [0, 3])
def test_an_index_known_at_run_time(tmp_path: Path, size: int, back: int) -> None:
    writer, reference = Writer(dynamic=True), np.zeros(3, np.int64)
    shape = writer.node("Shape", [writer.argument(X)], (2, 3))
    index = writer.node("ScalarSub", [writer.node("TupleGetItem", [shape, 0], 0), back], 0)
    item = writer.node("list_getitem", [(5, 6, 7), index], 0)
    made = writer.node(
        "TupleToTensor", [writer.node("list_setitem", [(5, 6, 7), index, 9], None), 35], reference
    )
    output = writer.node(
        "Mul", [made, writer.node("ScalarToTensor", [item, 35], np.array(0))], reference
    )
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, reference))))
    (got,) = run(tmp_path, proto, {"x0": np.zeros((size, 3), np.float32)})
    items = [5, 6, 7]
    items[size - back] = 9
    np.testing.assert_array_equal(got, np.array(items) * (5 + size))


def test_indices_with_slices_between_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="indexing with slices and tensors at once"):
        check(
            tmp_path,
            "GetTupleIndexInfo",
            [X, 0, np.zeros(2, np.int64), np.zeros(3, np.int64)],
            (0, 0),
            dynamic=True,
            tuple_index_types=(17, 25, 0),
        )
