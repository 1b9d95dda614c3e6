"""Values that are no tensors of numbers or bools: one error, by every way that reads a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, defs, helper, numpy_helper, save
from onnx_models import model, node

from rankmesh import Model, ModelError, ModelType
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.model_file.model_format import format_of, load_model
from rankmesh.compiler.onnx_graph.value_kinds import ValueKinds, given_kind
from rankmesh.compiler.slicing.sources import read_source
from rankmesh.worker.executors.settings import ExecutorSettings
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.runtime.program_spec import ProgramSpec
from rankmesh.worker.serving.string_model import open_string_model

TEXT, FLOAT = TensorProto.STRING, TensorProto.FLOAT
TENSOR = helper.make_tensor_type_proto(FLOAT, [2])


def maps(name: str) -> ValueInfoProto:
    info = ValueInfoProto(name=name)
    kind = info.type.sequence_type.elem_type.map_type
    kind.key_type, kind.value_type.tensor_type.elem_type = TensorProto.INT64, FLOAT
    return info


SEQUENCE = helper.make_value_info("y", helper.make_sequence_type_proto(TENSOR))
OPTIONAL = helper.make_value_info("x", helper.make_optional_type_proto(TENSOR))
UNTYPED = ValueInfoProto(name="y")
CLASSES = {"classlabels_int64s": [5, 6]}
ZIP = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **CLASSES)
SPLIT = node("SplitToSequence", "x", "y")
BODY = helper.make_graph([node("SplitToSequence", "x", "inner")], "then", [], [maps("inner")])
CASES = {
    "maps": ([ZIP], {"y": maps("y")}, "the output 'y' is a sequence of maps"),
    "sequence": ([SPLIT], {"y": SEQUENCE}, "the output 'y' is a sequence of tensors"),
    "untyped": ([SPLIT], {"y": UNTYPED}, "the output 'y' is a sequence of tensors"),
    "said to be a tensor": ([SPLIT], {}, "the output 'y' is a sequence of tensors"),
    "handed on": (
        [node("SplitToSequence", "x", "s"), node("Identity", "s", "y")],
        {"y": UNTYPED},
        "the output 'y' is a sequence of tensors",
    ),
    "of a branch": (
        [node("If", "flag", "y", then_branch=BODY, else_branch=BODY)],
        {"y": UNTYPED},
        "the output 'y' is a sequence of tensors",
    ),
    "optional": (
        [node("OptionalGetElement", "x", "y")],
        {"x": OPTIONAL},
        "the input 'x' is an optional value",
    ),
    "optional output": (
        [node("Optional", "x", "y")],
        {"y": UNTYPED},
        "the output 'y' is an optional value",
    ),
    "text constant": (
        [node("Identity", "text", "y")],
        {"y": helper.make_tensor_value_info("y", TEXT, [1])},
        "the output 'y' is a tensor of texts",
    ),
}


def written(path: Path, nodes: list, infos: dict[str, ValueInfoProto]) -> str:
    constants = {
        "flag": numpy_helper.from_array(np.array(True), "flag"),
        "text": helper.make_tensor("text", TEXT, [1], [b"a"]),
    }
    made = model(nodes, {"x": [2]}, {"y": [2]}, constants=constants)
    for info in (*made.graph.input, *made.graph.output):
        if info.name in infos:
            info.CopyFrom(infos[info.name])
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    save(made, str(path))
    return str(path)


def build(path: str) -> None:
    Model().build_from_file(path, ModelType.MINDIR)


def convert(path: str) -> None:
    convert_model(ConversionSettings(path, path.removesuffix(".onnx")))


def inspect(path: str) -> None:
    format_of(path).survey(path, None, "")


def read(path: str) -> None:
    read_source(path, {})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", [build, convert, inspect, read, load_model])
def test_every_way_refuses_them_alike(case: str, way: Callable[[str], None], tmp_path: Path):
    nodes, infos, text = CASES[case]
    path = written(tmp_path / "m.onnx", nodes, infos)
    with pytest.raises(ModelError) as caught:
        way(path)
    said = str(caught.value).removeprefix("build_from_file failed! Error is ")
    expected = f"{path}: {text}, and ranks take and give tensors of numbers and bools: "
    assert said.startswith(expected) and len(said) > len(expected)
    assert list(tmp_path.iterdir()) == [Path(path)]


def test_what_stays_inside_a_model_may_be_anything(tmp_path: Path):
    nodes = [
        node("SplitToSequence", "x", "s"),
        node("ConcatFromSequence", "s", "z", axis=0),
        node("Cast", "z", "t", to=TEXT),
        node("Cast", "t", "y", to=FLOAT),
    ]
    path = written(tmp_path / "m.onnx", nodes, {})
    built = Model()
    built.build_from_file(path, ModelType.MINDIR)
    x = np.array([1, 2], np.float32)
    assert built.predict([x])[0].get_data_to_numpy().tolist() == [1, 2]


def test_maps_behind_texts_are_told_first(tmp_path: Path):
    """A classifier with names: no way runs its maps, and an orchestrator its texts."""
    nodes = [ZIP, node("Cast", "x", "label", to=TEXT)]
    path = tmp_path / "m.onnx"
    made = model(nodes, {"x": [2]}, {"label": (TEXT, [2])})
    made.graph.output.append(maps("y"))
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    save(made, str(path))
    assert open_string_model(ProgramSpec(str(path), ExecutorSettings())) is None
    with pytest.raises(ModelError, match=r"the output 'y' is a sequence.*'zipmap': False"):
        load_model(str(path))


def test_a_sequence_between_two_steps_is_named(tmp_path: Path):
    """A collective parts the nodes that make and take it."""
    nodes = [
        node("SplitToSequence", "x", "s"),
        helper.make_node("AllReduce", ["x"], ["a"], domain="rankmesh"),
        node("ConcatFromSequence", "s", "b", axis=0),
        node("Add", "a b", "y"),
    ]
    path = written(tmp_path / "m.onnx", nodes, {})
    with pytest.raises(ModelError, match="the value 's' is a sequence of tensors, and ranks"):
        make_plan(load_model(path), 0, 1)


@pytest.mark.pure
def test_kinds_of_loops_and_endless_graphs():
    body = helper.make_graph(
        [node("SequenceInsert", "s x", "t"), node("Identity", "c", "d")],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_value_info("s", helper.make_sequence_type_proto(TENSOR)),
        ],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []), ValueInfoProto(name="t")],
    )
    loop = helper.make_node("Loop", ["", "", "empty"], ["y"], body=body)
    empty = helper.make_node("SequenceEmpty", [], ["empty"])
    assert ValueKinds(model([empty, loop])).of("y") == "a sequence of tensors"
    circle = [node("Identity", "a", "b"), node("Identity", "b", "a")]
    assert ValueKinds(model(circle)).of("a") == ""
    assert ValueKinds(model([node("Mystery", "a", "b")])).of("b") == ""


KINDS = {
    "optional(": "an optional value",
    "seq(map(": "a sequence of maps",
    "seq(": "a sequence of tensors",
    "map(": "a map",
    "sparse_tensor(": "a sparse tensor",
    "tensor(string)": "a tensor of texts",
}
"""How the types of an operator's schema begin, and what they are."""


def kind_of(text: str) -> str:
    return next((kind for begin, kind in KINDS.items() if text.startswith(begin)), "")


@pytest.mark.pure
def test_what_operators_give_is_as_their_schemas_say():
    for schema in defs.get_all_schemas_with_history():
        for index, output in enumerate(schema.outputs):
            found = set(map(kind_of, output.types))
            made = helper.make_node(schema.name, [], ["y"], domain=schema.domain)
            assert given_kind(made, index) == (found.pop() if len(found) == 1 else ""), schema.name
