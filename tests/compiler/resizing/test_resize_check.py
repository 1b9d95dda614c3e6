"""Input shapes that a model cannot have: each names the node, the constant, and what fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper, save
from onnx_models import model, node

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.resizing.resize_check import check_file

pytestmark = pytest.mark.pure


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def pad(steps: int) -> NodeProto:
    return node("MaxPool", "x", "y", kernel_shape=[steps, steps])


LSTM = helper.make_node("LSTM", ["x", "w", "r", "", "", "h", "h"], ["y"], hidden_size=4)
GATES = {"w": ones(1, 16, 8), "r": ones(1, 16, 4), "h": ones(1, 2, 4)}
FLAT = [
    node("Reshape", "x rows", "a"),
    node("MatMul", "a w", "b"),
    node("Relu", "b", "c"),
    node("Reshape", "c back", "y"),
]
FLAT_CONSTANTS = {"rows": numbers(-1, 8), "back": numbers(4, -1, 6), "w": ones(8, 6)}
TURNED = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Reshape", "t s", "y")]
SLICED = {"s": numbers(8), "e": numbers(16), "axes": numbers(1)}

# nodes, constants, the exported shape, the asked one, what is said of it ("": it fits)
CASES: dict[str, tuple[list[NodeProto], dict[str, np.ndarray], list[int], list[int], str]] = {
    "reshape": (
        [node("Reshape", "x s", "y")],
        {"s": numbers(4, 16, -1)},
        [4, 64],
        [2, 64],
        "(Reshape): the constant 's' = [4, 16, -1] fixes dimension 0 at 4, and it gives [4, 16, 2] "
        "for [2, 64], which was [4, 64]. It takes 'x' [4, 64],",
    ),
    "reshape of rows": (
        [node("Reshape", "x s", "y")],
        {"s": numbers(-1, 64)},
        [4, 64],
        [2, 64],
        "",
    ),
    "reshape of zero": ([node("Reshape", "x s", "y")], {"s": numbers(0, -1)}, [4, 6], [3, 8], ""),
    "batch in rows": (FLAT, FLAT_CONSTANTS, [4, 16, 8], [2, 16, 8], "'back' = [4, -1, 6] fixes"),
    "steps in rows": (FLAT, FLAT_CONSTANTS, [4, 16, 8], [4, 5, 8], ""),
    "turned axes": (TURNED, {"s": numbers(6, 4, -1)}, [4, 6, 8], [2, 6, 8], "fixes dimension 1 at"),
    "turned rows": (TURNED, {"s": numbers(6, -1, 8)}, [4, 6, 8], [2, 6, 8], ""),
    "positions": (
        [node("Add", "x pos", "y")],
        {"pos": ones(1, 16, 8)},
        [2, 16, 8],
        [2, 5, 8],
        "the constant 'pos' of the shape [1, 16, 8] fixes dimension 1 at 16, and gets [2, 5, 8]",
    ),
    "one position": (
        [node("Add", "x pos", "y")],
        {"pos": ones(1, 16, 8)},
        [2, 16, 8],
        [2, 1, 8],
        "the constant 'pos' of the shape [1, 16, 8] fixes dimension 1 at 16, and gets 1 there",
    ),
    "other batch": ([node("Add", "x pos", "y")], {"pos": ones(4, 8)}, [2, 4, 8], [5, 4, 8], ""),
    "expand": (
        [node("Expand", "x s", "y")],
        {"s": numbers(4, 3, 8)},
        [4, 1, 8],
        [1, 1, 8],
        "the constant 's' = [4, 3, 8] fixes dimension 0 at 4, and gets 1",
    ),
    "slice to the end": (
        [node("Slice", "x s e axes", "y")],
        SLICED,
        [2, 16, 8],
        [2, 32, 8],
        "the constant 'e' = [16] fixes dimension 1 at 16, and gets 32",
    ),
    "slice behind the end": (
        [node("Slice", "x s e axes", "y")],
        SLICED,
        [2, 16, 8],
        [2, 8, 8],
        "the constant 's' = [8] begins behind dimension 1, 8",
    ),
    "slice of the end": (
        [node("Slice", "x s e axes", "y")],
        {**SLICED, "e": numbers(2**63 - 1)},
        [2, 16, 8],
        [2, 32, 8],
        "",
    ),
    "gather all": (
        [node("Gather", "x i", "y", axis=1)],
        {"i": numbers(2, 0, 1)},
        [2, 3],
        [2, 4],
        "the constant 'i' = [2, 0, 1] fixes dimension 1 at 3, and gets 4",
    ),
    "gather too far": (
        [node("Gather", "x i", "y", axis=1)],
        {"i": numbers(2)},
        [2, 4],
        [2, 2],
        "the constant 'i' = [2] fixes dimension 1 at 4",
    ),
    "gather the last": ([node("Gather", "x i", "y")], {"i": numbers(-1)}, [4, 2], [2, 2], ""),
    "concat": (
        [node("Concat", "token x", "y", axis=1)],
        {"token": ones(4, 1, 8)},
        [4, 16, 8],
        [2, 16, 8],
        "the constant 'token' of the shape [4, 1, 8] fixes dimension 0 at 4",
    ),
    "channels": (
        [node("Conv", "x w", "y")],
        {"w": ones(4, 3, 3, 3)},
        [1, 3, 8, 8],
        [2, 4, 8, 8],
        "the constant 'w' of the shape [4, 3, 3, 3] fixes dimension 1 at 3, and gets 4. It takes "
        "'x' [2, 3, 8, 8],",
    ),
    "a smaller image": (
        [node("Conv", "x w", "y")],
        {"w": ones(4, 3, 3, 3)},
        [1, 3, 8, 8],
        [1, 3, 2, 8],
        "(Conv): leaves nothing of [1, 3, 2, 8]",
    ),
    "pool": ([pad(3)], {}, [1, 3, 8, 8], [1, 3, 5, 9], ""),
    "states": ([LSTM], GATES, [5, 2, 8], [5, 1, 8], "the constant 'h' of the shape [1, 2, 4] fix"),
    "states that follow the batch": (
        [
            node("Shape", "x", "batch", start=1, end=2),
            node("Concat", "one batch four", "sizes", axis=0),
            node("Expand", "h2 sizes", "h"),
            LSTM,
        ],
        {
            "w": ones(1, 16, 8),
            "r": ones(1, 16, 4),
            "h2": ones(1, 2, 4),
            "one": numbers(1),
            "four": numbers(4),
        },
        [5, 2, 8],
        [5, 1, 8],
        "(Expand): the constant 'h2' of the shape [1, 2, 4] fixes dimension 1 at 2, and gets 1",
    ),
    "steps": ([LSTM], GATES, [5, 2, 8], [9, 2, 8], ""),
    "resize": (
        [helper.make_node("Resize", ["x", "", "", "s"], ["y"])],
        {"s": numbers(4, 3, 16, 16)},
        [4, 3, 8, 8],
        [2, 3, 8, 8],
        "the constant 's' = [4, 3, 16, 16] fixes dimension 0 at 4, and gets 2",
    ),
    "squeeze": ([node("Squeeze", "x", "y")], {}, [2, 3], [1, 3], "gives [3], which was [2, 3]"),
    "width": (
        [node("Gemm", "x w", "y")],
        {"w": ones(16, 4)},
        [2, 16],
        [1, 8],
        "the constant 'w' of the shape [16, 4] fixes dimension 1 at 16, and gets [1, 8]",
    ),
    "empty": ([node("Relu", "x", "y")], {}, [2, 3], [0, 3], ""),
}


def written(path: Path, case: str) -> str:
    nodes, constants, exported, _, _ = CASES[case]
    save(model(nodes, {"x": exported}, {"y": None}, constants=constants), str(path))
    return str(path)


def checked(path: str, exported: Any, asked: Any) -> str:
    try:
        check_file(path, None, "", [tuple(exported)], [tuple(asked)])
    except ModelError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("case", CASES)
def test_the_constant_is_named(case: str, tmp_path: Path):
    path = written(tmp_path / "m.onnx", case)
    *_, exported, asked, text = CASES[case]
    said = checked(path, exported, asked)
    assert bool(said) == bool(text) and text in said
    if text:
        assert said.startswith(f"{path}: it cannot take 'x' {asked}: node '")
        assert "It takes 'x'" in said
    assert not checked(path, exported, exported)


@pytest.mark.parametrize("case", CASES)
def test_conversions_say_the_same_and_write_nothing(case: str, tmp_path: Path):
    path = written(tmp_path / "m.onnx", case)
    *_, exported, asked, text = CASES[case]
    settings = ConversionSettings(path, str(tmp_path / "made"), {"x": tuple(asked)})
    if not text:
        return
    with pytest.raises(ModelError) as caught:
        convert_model(settings)
    assert str(caught.value) == checked(path, exported, asked)
    assert [one.name for one in tmp_path.iterdir()] == ["m.onnx"]


def test_a_converted_model_says_the_same(tmp_path: Path):
    """MindIR has the constant as it was computed for the exported shape."""
    path = written(tmp_path / "m.onnx", "reshape")
    made = str(convert_model(ConversionSettings(path, str(tmp_path / "made"))))
    said = checked(made, [4, 64], [2, 64])
    assert "(Reshape)" in said and "= [4, 16, 4] fixes dimension 0 at 4" in said


def test_a_size_that_is_to_be_open(tmp_path: Path):
    path = written(tmp_path / "m.onnx", "reshape")
    assert "'x' [-1, 64]" in checked(path, [4, 64], [-1, 64])
    assert not checked(path, [4, 64], [4, -1])
    path = written(tmp_path / "m.onnx", "reshape of rows")
    assert not checked(path, [4, 64], [-1, 64])


def test_a_size_that_is_open_in_the_file(tmp_path: Path):
    nodes = [node("Reshape", "x s", "r"), node("MatMul", "r w", "y")]
    constants = {"s": numbers(4, -1), "w": ones(4, 3)}
    save(model(nodes, {"x": ["n", 4]}, {"y": None}, constants=constants), tmp_path / "m.onnx")
    said = checked(str(tmp_path / "m.onnx"), [-1, 4], [2, 4])
    assert (
        "(MatMul): cannot compute [4, 2] beside the constant 'w' of the shape [4, 3], behind no"
        in said
    )
    assert (
        "node 'Reshape r' (Reshape) with the constant 's' = [4, -1]. It takes 'x' [4, 4], or"
        in said
    )
    assert not checked(str(tmp_path / "m.onnx"), [-1, 4], [4, 4])
    assert not checked(str(tmp_path / "m.onnx"), [-1, 4], [-1, 4])


def test_two_inputs_that_go_together(tmp_path: Path):
    made = model([node("Add", "a b", "y")], {"a": [4, 8], "b": [4, 8]}, {"y": None})
    save(made, tmp_path / "m.onnx")
    path = str(tmp_path / "m.onnx")
    check_file(path, None, "", [(4, 8), (4, 8)], [(2, 8), (2, 8)])
    with pytest.raises(ModelError, match=r"compute \[2, 8\] and \[4, 8\], which was \[4, 8\] and"):
        check_file(path, None, "", [(4, 8), (4, 8)], [(2, 8), (4, 8)])
