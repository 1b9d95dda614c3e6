from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from rankmesh import ModelError, UsageError
from rankmesh.comm.serving.string_tensor import packed, strings_of, unpacked
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.requests.batch_axes import BatchAxes, join, joint_shapes, split

pytestmark = pytest.mark.pure

Array = NDArray[Any]


def spec(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "float32", shape)


IDS, MASK, SCALE = spec("ids", -1, 4), spec("mask", -1, 4), spec("scale")
LOGITS, LOSS = spec("logits", -1, 2), spec("loss")
AXES = BatchAxes.of([IDS, MASK, SCALE], [LOGITS, LOSS])


def test_axes_are_found_from_the_shapes() -> None:
    assert AXES == BatchAxes((True, True, False), frozenset({"logits"}))


def test_axes_are_those_declared() -> None:
    assert BatchAxes.of([IDS, MASK, SCALE], [LOGITS], ["mask"]).inputs == (False, True, False)
    assert BatchAxes.of(
        [TensorSpec("x", "int8", None)], [TensorSpec("y", "int8", None)], ["x"]
    ) == BatchAxes((True,), frozenset({"y"}))


@pytest.mark.parametrize(
    ("inputs", "outputs", "declared", "said"),
    [
        (
            [spec("ids", 1, 4), SCALE],
            [LOGITS],
            None,
            "no input of the model has an open first dimension (ids [1, 4], ",
        ),
        (
            [TensorSpec("x", "int8", None)],
            [LOGITS],
            None,
            "no input of the model has an open first dimension (x of any",
        ),
        ([IDS], [LOSS], None, "no output of the model has an open first dimension (loss [])"),
        ([], [LOGITS], None, "no input of the model has an open first dimension (none)"),
        ([IDS], [LOGITS], ["id"], "the model has no input 'id': it has ids."),
        (
            [IDS, SCALE],
            [LOGITS],
            ["scale"],
            "the first dimension of input 'scale' is fixed (scale [])",
        ),
        (
            [spec("x", 8, 4)],
            [LOGITS],
            ["x"],
            "the first dimension of input 'x' is fixed (x [8, 4])",
        ),
    ],
)
def test_what_cannot_be_batched_is_refused(
    inputs: list[TensorSpec], outputs: list[TensorSpec], declared: list[str] | None, said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        BatchAxes.of(inputs, outputs, declared)


def one(
    rows: int,
    width: int = 4,
    scale: Any = 1.0,
    dtype: str = "float32",
    mask_rows: int | None = None,
) -> list[Array]:
    return [
        np.ones((rows, width), dtype),
        np.ones((rows if mask_rows is None else mask_rows, width), dtype),
        np.asarray(scale, dtype),
    ]


def test_requests_of_one_kind_differ_only_in_rows_and_values() -> None:
    rows, kind = AXES.rows_and_kind(one(3))
    assert rows == 3
    assert AXES.rows_and_kind([2 * one(5)[0], one(5)[1], one(5)[2]]) == (5, kind)
    assert AXES.rows_and_kind(one(0)) == (0, kind)


@pytest.mark.parametrize(
    "other",
    [
        one(3, width=5),
        one(3, scale=2.0),
        one(3, scale=-0.0),
        one(3, scale=[1.0]),
        one(3, dtype="float64"),
    ],
)
def test_other_dimensions_dtypes_or_shared_values_are_another_kind(other: list[Array]) -> None:
    assert (
        AXES.rows_and_kind(other)[1]
        != AXES.rows_and_kind(one(3, scale=0.0 if not other[2].any() else 1.0))[1]
    )


@pytest.mark.parametrize(
    "arrays", [one(3, mask_rows=1), [np.float32(1.0) * np.ones(()), one(1)[1], one(1)[2]]]
)
def test_inputs_that_disagree_on_their_rows_run_alone(arrays: list[Array]) -> None:
    assert AXES.rows_and_kind(arrays) == (1, None)


def test_large_shared_inputs_are_compared_by_all_their_bytes() -> None:
    axes = BatchAxes.of([IDS, spec("table", 50, 2)], [LOGITS])
    table = np.zeros((50, 2), np.float32)
    changed = table.copy()
    changed[-1, -1] = 1
    kinds = [
        axes.rows_and_kind([one(1)[0], shared])[1]
        for shared in (table, table.copy(order="F"), changed)
    ]
    assert kinds[0] == kinds[1] != kinds[2]


def test_strings_are_joined_and_split_by_rows() -> None:
    texts, big = (TensorSpec(name, "bytes", (-1, 2)) for name in ("texts", "big"))
    axes = BatchAxes.of([texts, SCALE], [big, LOSS])
    requests = [[packed(strings_of([["a", "bc"]] * rows)), np.float32(1)] for rows in (1, 3)]
    (rows, kind), other = (axes.rows_and_kind(one) for one in requests)
    assert (rows, other) == (1, (3, kind))
    wide = packed(strings_of([["a", "b", "c"]]))
    assert axes.rows_and_kind([wide, np.float32(1)])[1] != kind
    joined = join(axes, requests)
    assert unpacked(joined[0]).tolist() == [[b"a", b"bc"]] * 4
    first, second = split(axes, {"big": joined[0], "loss": np.float32(1)}, [1, 3])
    assert unpacked(first["big"]).shape == (1, 2) and unpacked(second["big"]).shape == (3, 2)
    with pytest.raises(ModelError, match=r"'big' has the shape \[4, 2\] for requests of 5 rows"):
        split(axes, {"big": joined[0]}, [2, 3])
    with pytest.raises(ModelError, match="'big' is no tensor of strings: it ends before"):
        split(axes, {"big": joined[0][:-20]}, [1, 3])


def test_join_writes_into_the_arrays_it_is_given() -> None:
    parts = [
        [
            np.full((rows, 4), rows, np.float32),
            np.zeros((rows, 4), np.float32),
            np.float32(7.0).reshape(()),
        ]
        for rows in (1, 2)
    ]
    out = [np.empty(shape, np.float32) for shape in joint_shapes(AXES, parts)]
    joined = join(AXES, parts, out)
    assert all(have is given for have, given in zip(joined, out, strict=True))
    assert joined[0].tolist() == [[1] * 4, [2] * 4, [2] * 4] and joined[2] == 7.0


def test_a_single_request_is_not_copied() -> None:
    alone = one(3)
    assert all(have is given for have, given in zip(join(AXES, [alone]), alone, strict=True))


def test_outputs_without_rows_go_to_everybody() -> None:
    logits, loss = np.arange(6.0).reshape(3, 2), np.float32(0.5).reshape(())
    first, second = split(AXES, {"loss": loss, "logits": logits}, [1, 2])
    assert list(first) == ["loss", "logits"] and first["loss"] is loss and second["loss"] is loss
    assert first["logits"].tolist() == [[0, 1]] and second["logits"].tolist() == [[2, 3], [4, 5]]
    assert np.shares_memory(first["logits"], logits)
    assert split(AXES, {}, [1, 2]) == [{}, {}]  # a rank that has no result


@pytest.mark.parametrize("shape", [(4, 2), (), (0,)])
def test_outputs_with_other_rows_are_an_error(shape: tuple[int, ...]) -> None:
    said = f"output 'logits' has the shape {list(shape)} for requests of 3 rows together"
    with pytest.raises(ModelError, match=re.escape(said)):
        split(AXES, {"logits": np.zeros(shape)}, [1, 2])


@st.composite
def models(draw: st.DrawFn) -> tuple[list[bool], list[list[Array]]]:
    """Which inputs have rows, and requests that differ in these."""
    rowed = draw(st.lists(st.booleans(), min_size=1, max_size=3).filter(any))
    inner = [
        draw(arrays_of.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)) for _ in rowed
    ]
    dtypes = [draw(st.sampled_from([np.float32, np.int64, np.bool_, np.float16])) for _ in rowed]
    shared = [
        draw(arrays_of.arrays(dtype, shape)) for dtype, shape in zip(dtypes, inner, strict=True)
    ]
    counts = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    return rowed, [
        [
            draw(arrays_of.arrays(dtype, (count, *shape))) if has_rows else same
            for has_rows, dtype, shape, same in zip(rowed, dtypes, inner, shared, strict=True)
        ]
        for count in counts
    ]


@settings(deadline=None, max_examples=50)
@given(models())
def test_split_undoes_join(model: tuple[list[bool], list[list[Array]]]) -> None:
    rowed, requests = model
    names = [f"x{position}" for position in range(len(rowed))]
    axes = BatchAxes(
        tuple(rowed), frozenset(name for name, has in zip(names, rowed, strict=True) if has)
    )
    rows, kinds = zip(*(axes.rows_and_kind(arrays) for arrays in requests), strict=True)
    assert len(set(kinds)) == 1 and kinds[0] is not None
    joined = join(axes, requests)
    assert [array.shape for array in joined] == joint_shapes(axes, requests)
    for apart, arrays in zip(
        split(axes, dict(zip(names, joined, strict=True)), rows), requests, strict=True
    ):
        for have, given_array in zip(apart.values(), arrays, strict=True):
            assert have.dtype == given_array.dtype and have.tobytes() == given_array.tobytes()
            assert have.shape == given_array.shape
