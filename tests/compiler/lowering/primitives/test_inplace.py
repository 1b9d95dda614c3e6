"""In-place primitives: what they write, and who sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives import Fixed, Writer, check, run, same

from rankmesh.compiler.lowering.builder.registry import IN_PLACE, is_supported
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.lowering.primitives.inplace import PLAIN
from rankmesh.compiler.mindir.reader import read_model

X = np.array([[-1.5, 0.25, 2.0], [3.0, -0.75, 0.5]], np.float32)
Y = np.array([[2.0, -1.0, 0.5], [1.0, 4.0, -2.0]], np.float32)
MASK = X > 0
WRITES: list[tuple[str, list[Any], np.ndarray]] = [
    ("InplaceAddExt", [Y, 2], X + 2 * Y),
    ("InplaceAddExt", [Y.astype(np.float16), 1], X + Y),
    ("InplaceAddsExt", [2.5, 2], X + 5),
    ("InplaceSubExt", [Y[0], 1], X - Y[0]),
    ("InplaceSubScalar", [0.5, 1], X - 0.5),
    ("InplaceMul", [Y], X * Y),
    ("InplaceMuls", [3], X * 3),
    ("InplaceDiv", [Y], X / Y),
    ("InplaceDivs", [4.0], X / 4),
    ("InplaceDivMod", [Y, 2], np.floor(X / Y)),
    ("InplaceDivMods", [0.5, 1], np.trunc(X / 0.5)),
    ("InplaceFloorDivide", [Y], np.floor(X / Y)),
    ("InplaceFloorDivides", [0.5], np.floor(X / 0.5)),
    ("InplaceRemainderTensorTensor", [Y], np.mod(X, Y)),
    ("InplaceRemainderTensorScalar", [2], np.mod(X, 2)),
    ("InplaceClampScalar", [-1.0, 1.0], np.clip(X, -1, 1)),
    ("InplaceClampTensor", [Y, None], np.maximum(X, Y)),
    ("InplaceMaskedFillScalar", [MASK, 9.0], np.where(MASK, 9, X)),
    ("InplaceMaskedFillTensor", [MASK, np.array(7, np.float32)], np.where(MASK, 7, X)),
    ("InplaceReLU", [], np.maximum(X, 0)),
    ("InplaceHardtanh", [], np.clip(X, -1, 1)),
    ("InplaceExp", [], np.exp(X)),
    ("InplaceSigmoid", [], 1 / (1 + np.exp(-X))),
    ("InplaceFloor", [], np.floor(X)),
    ("InplaceCopy", [Y[0].astype(np.float64), False], np.broadcast_to(Y[0], X.shape).copy()),
    ("InplaceFillScalar", [3], np.full_like(X, 3)),
    ("InplaceZero", [], np.zeros_like(X)),
    (
        "InplaceIndexFillTensor",
        [1, np.array([0, 2]), np.array(7, np.float32)],
        np.where([True, False, True], 7, X),
    ),
]


def test_every_plain_primitive_is_there() -> None:
    assert [plain for plain in PLAIN.values() if not is_supported(plain)] == []
    assert [primitive for primitive in IN_PLACE if not is_supported(primitive)] == []


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("primitive", "arguments", "expected"), WRITES)
def test_what_is_written(
    tmp_path: Path, primitive: str, arguments: list[Any], expected: np.ndarray, dynamic: bool
) -> None:
    check(tmp_path, primitive, [X, *arguments], expected.astype(X.dtype), dynamic)


@pytest.mark.parametrize("argument", [X, Fixed(X)])
def test_a_later_read_sees_what_was_written(tmp_path: Path, argument: Any) -> None:
    writer = Writer()
    buffer = writer.argument(argument)
    before = writer.node("Muls", [buffer, 2], X)
    written = writer.node("InplaceMul", [buffer, Y], X)
    again = writer.node("InplaceAddsExt", [written, 1, 1], X)
    after = writer.node("Load", [buffer, again], X)
    both = writer.node("Add", [before, after], X)
    outputs = run(
        tmp_path,
        lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", both, X)))),
        writer.arrays,
    )
    same(outputs[0], X * 2 + (X * Y + 1))


def test_a_copy_made_before_keeps_its_value(tmp_path: Path) -> None:
    writer = Writer()
    buffer = writer.node("ReLU", [X], X)
    copy = writer.node("TensorMove", [writer.node("Load", [buffer], X)], X)
    shaped = writer.node(
        "Cast", [buffer, 43], X
    )  # the same dtype: the copy that it is must not be lost
    written = writer.node("InplaceAddExt", [buffer, Y, 1], X)
    outer = writer.node("Mul", [writer.node("Sub", [copy, written], X), shaped], X)
    outputs = run(
        tmp_path,
        lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", outer, X)))),
        writer.arrays,
    )
    same(outputs[0], -Y * np.maximum(X, 0))


def test_two_buffers_of_equal_zeros_are_two(tmp_path: Path) -> None:
    writer = Writer()
    first, second = (writer.node("Zeros", [(2, 3), 43], X) for _ in range(2))
    written = writer.node("InplaceAddExt", [first, Y, 1], X)
    total = writer.node("Add", [writer.node("Muls", [written, 2], X), second], X)
    outputs = run(
        tmp_path,
        lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", total, X)))),
        writer.arrays,
    )
    same(outputs[0], 2 * Y)
