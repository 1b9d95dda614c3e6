"""ONNX models that take or give strings: their tensors, their errors, and which models they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper, save
from onnx_models import model, node

from rankmesh import InputError, ModelError, UsageError
from rankmesh.comm.serving.string_tensor import packed, strings_of, unpacked
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.comm.serving.weights import DiscardWeights
from rankmesh.worker.executors.settings import ExecutorSettings
from rankmesh.worker.runtime.program_spec import ProgramSpec
from rankmesh.worker.serving.string_model import StringModel, open_string_model

TEXT = (TensorProto.STRING, ["n"])


def opened(path: Path, executor: str = "") -> StringModel | None:
    return open_string_model(ProgramSpec(str(path), ExecutorSettings(name=executor)))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> StringModel:
    """y = text of (number in x) + z, n = its number."""
    path = tmp_path_factory.mktemp("strings") / "numbers.onnx"
    nodes = [
        node("Cast", "x", "number", to=7),
        node("Add", "number z", "n"),
        node("Cast", "n", "y", to=8),
    ]
    ints = (np.int64, ["n"])
    save(model(nodes, {"x": TEXT, "z": ints}, {"y": TEXT, "n": ints}), path)
    found = opened(path)
    assert found is not None
    return found


def test_strings_and_numbers(numbers: StringModel) -> None:
    assert numbers.report.inputs == (
        TensorSpec("x", "bytes", (-1,)),
        TensorSpec("z", "int64", (-1,)),
    )
    assert [one.dtype for one in numbers.report.outputs] == ["bytes", "int64"]
    for texts in (["1", "22"], []):
        given = {"x": packed(strings_of(texts)), "z": np.ones(len(texts), np.int64)}
        found = numbers.borrow(given)
        assert unpacked(found["y"]).tolist() == [str(int(one) + 1).encode() for one in texts]
        assert found["n"].tolist() == [int(one) + 1 for one in texts]


def test_files_are_read_in_their_normal_form(tmp_path: Path) -> None:
    """A function with a default attribute, nodes out of order, the long name of ONNX's domain, and
    an input with a default: as by every other way.
    """
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(AttributeProto(name="alpha", ref_attr_name="slope", type=1))
    function = helper.make_function(
        "own",
        "Leaky",
        ["a"],
        ["b"],
        [leaky],
        [helper.make_opsetid("ai.onnx", 17)],
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )
    nodes = [
        node("Mul", "h scale", "y"),
        helper.make_node("Leaky", ["number"], ["h"], domain="own"),
        helper.make_node("Cast", ["x"], ["number"], domain="ai.onnx", to=1),
    ]
    made = model(nodes, {"x": TEXT, "scale": []}, {"y": ["n"]}, constants={"scale": np.float32(3)})
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("own", 1))
    save(made, tmp_path / "odd.onnx")
    found = opened(tmp_path / "odd.onnx")
    assert found is not None
    x, scale = found.report.inputs
    assert (x.name, x.default, scale.name) == ("x", None, "scale")
    given = {"x": packed(strings_of(["-2", "4"])), "scale": scale.default_array}
    assert found.borrow(given)["y"].tolist() == [-3, 12]
    given["scale"] = np.array(1, np.float32)
    assert found.borrow(given)["y"].tolist() == [-1, 4]


def test_what_it_cannot_take_is_told(numbers: StringModel, tmp_path: Path) -> None:
    z = np.ones(1, np.int64)
    with pytest.raises(InputError, match="the input 'x' has bytes that are no text in UTF-8"):
        numbers.borrow({"x": packed(strings_of([b"\xff"])), "z": z})
    with pytest.raises(ModelError, match=r"numbers\.onnx failed: .*Cast"):
        numbers.borrow({"x": packed(strings_of(["a"])), "z": z})
    with pytest.raises(UsageError, match="takes or gives strings: its weights cannot be updated"):
        numbers.reply(DiscardWeights())


def test_only_models_with_strings_at_their_ends_are_such(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", "text", to=8), node("Cast", "text", "y", to=1)]
    path = tmp_path / "inside.onnx"
    save(model(nodes, {"x": [2]}, {"y": [2]}), path)
    assert opened(path) is None
    nodes = [node("Cast", "x", "y", to=8)]
    save(model(nodes, {"x": [2]}, {"y": (TensorProto.STRING, [2])}), path)
    assert opened(path, "torch") is None
    (tmp_path / "broken.onnx").write_bytes(b"\xff\xff")
    assert opened(tmp_path / "broken.onnx") is None and opened(tmp_path / "gone.onnx") is None
    assert opened(path) is not None
