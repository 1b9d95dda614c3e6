"""Models of a few bytes that ask their lowering for more than any machine has: one error, in little
time and memory.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives import Writer

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lowering.builder import budget
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

X = np.ones(4, np.float32)
FLOAT32 = np.dtype(np.float32)
PLANES = np.ones((1, 1, 4, 4), np.float32)


def argument(writer: Writer, array: np.ndarray, dims: list[int]) -> str:
    """An input that says that it has other dimensions."""
    key = writer.argument(array)
    next(info for info in writer.graph.input if info.name == key).tensor[0].dims[:] = dims
    return key


def repeated(writer: Writer, count: int, primitive: str, arguments: list[Any]) -> str:
    """The sum of what so many equal nodes give."""
    keys = [writer.node(primitive, arguments, None) for _ in range(count)]
    return writer.node("AddN", [writer.node("MakeTuple", keys, None)], None)


def doubled(writer: Writer, value: Any, primitive: str, times: int = 40) -> str:
    """A value that a primitive doubles again and again."""
    key = (
        writer.node("MakeTuple", [value, value], None)
        if primitive == "SequenceAdd"
        else writer.argument(value)
    )
    for _ in range(times):
        key = writer.node(primitive, [key, key], None)
    return key


def one_node(
    primitive: str, dims: list[int], *arguments: Any, array: np.ndarray = X, **attributes: Any
) -> Any:
    return lambda w: w.node(primitive, [argument(w, array, dims), *arguments], None, attributes)


BOMBS: dict[str, tuple[Callable[[Writer], str], str]] = {
    "identities": (
        lambda w: repeated(w, 60, "Eye", [2048, 2048, FLOAT32]),
        "constants of more than 512 MiB",
    ),
    "ranges": (
        lambda w: repeated(w, 5, "Range", [0, 1 << 24, 1]),
        "constants of more than 512 MiB",
    ),
    "python range": (
        lambda w: w.node("make_range", [0, 1 << 25, 1], None),
        "the length of the range is 33554432",
    ),
    "tuples": (lambda w: doubled(w, X, "MakeTuple"), "a tuple of 2097152 values"),
    "sequences": (lambda w: doubled(w, 1, "SequenceAdd"), "a tuple of 2097152 values"),
    "products": (lambda w: doubled(w, 3, "ScalarMul"), "bits, expected at most 128"),
    "powers": (lambda w: doubled(w, 9, "ScalarPow", 6), "387420489 ** 387420489 is too large"),
    "splits": (
        lambda w: repeated(w, 9, "Split", [w.argument(X), 0, 1 << 14]),
        "more than 131072 results",
    ),
    "parts": (one_node("SplitTensor", [1 << 40], 1, 0), "the number of parts is 1099511627776"),
    "bounds": (
        lambda w: w.node(
            "StridedSlice",
            [X, *[argument(w, np.ones(4, np.int64), [1 << 40])] * 3, 0, 0, 0, 0, 0],
            None,
        ),
        "the number of bounds is 1099511627776",
    ),
    "elements": (one_node("TensorToTuple", [1 << 40]), "the length is 1099511627776"),
    "windows": (
        one_node("AdaptiveMaxPool2D", [1, 1, 1, 1], (30_000, 30_000), array=PLANES),
        "of all windows is",
    ),
    "windows of nothing": (
        one_node("AdaptiveAvgPool2D", [1, 1, 0, 0], array=PLANES, output_size=(1 << 33, 1 << 33)),
        "the number of windows is 8589934592",
    ),
    "pixels of nothing": (
        one_node("ResizeBicubic", [1, 1, 0, 0], (1 << 31, 1 << 31), array=PLANES),
        "the number of coefficients is 2147483648",
    ),
    "no repeats": (
        one_node("RepeatInterleaveInt", [1 << 32], 0, 0),
        "the number of rows is 4294967296",
    ),
    "layers": (
        lambda w: w.node(
            "LSTM",
            [np.ones((1, 1, 1), np.float32)] * 3 + [X],
            None,
            {"input_size": 1, "hidden_size": 1, "num_layers": 1 << 31},
        ),
        "num_layers is 2147483648",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_one_error(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, said = BOMBS[name]
    monkeypatch.setattr(budget, "MOST_RESULTS", 1 << 17)  # an eighth of it, as of the time
    writer = Writer()
    path = writer.save(tmp_path / "m.mindir", write(writer), X)
    assert path.stat().st_size < 64 << 10
    with (
        more_memory(3 << 29),
        pytest.raises(ModelError, match=f"{path}.*{said.replace('*', '.')}"),
    ):
        lower_mindir(read_model(str(path)))


@contextmanager
def more_memory(limit: int) -> Iterator[None]:
    """No more than `limit` bytes on top of what this process has: beyond, it gets a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_functions_that_call_functions_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankmesh.compiler.lowering.lower_mindir.MAX_NODES", 1 << 14)
    writer = Writer()
    model, x = writer.model, writer.argument(X)
    model.primitives.add(name="Abs:0", op_type="Abs", prim_type=1)
    for at in range(30):
        function = model.functions.add(name=f"f{at}")
        function.input.add(name=f"f{at}:a").tensor.add(dims=[4], data_type=1)
        callee = f"REF::f{at - 1}" if at else "REF::Abs:0"
        function.node.add(op_type=callee, output=[f"f{at}:b"], input=[f"f{at}:a"])
        function.node.add(op_type=callee, output=[f"f{at}:c"], input=[f"f{at}:b"])
        function.node.add(op_type="REF::Abs:0", output=[f"f{at}:d"], input=[f"f{at}:c"])
        function.output.add(name=f"f{at}:d").tensor.add(dims=[4], data_type=1)
    writer.graph.node.add(op_type="REF::f29", output=["n"], input=[x])
    with pytest.raises(ModelError, match="more than 16384 nodes once its functions are called"):
        lower_mindir(read_model(str(writer.save(tmp_path / "m.mindir", "n", X))))


def test_what_lies_in_the_file_is_not_counted(tmp_path: Path) -> None:
    """A model may reshape its own constants as often as it wants."""
    from primitives import Fixed

    writer, large = Writer(), np.ones((1 << 10, 1 << 10), np.float32)
    key = writer.argument(Fixed(large))
    for _ in range(300):
        key = writer.node("Reshape", [key, (1 << 20,)], None)
    lower_mindir(read_model(str(writer.save(tmp_path / "m.mindir", key, large.reshape(-1)))))
