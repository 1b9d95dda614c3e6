"""Files of MindSpore 1.x: primitives by their bare names, attributes on the nodes, texts that
describe values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from primitives import Parameter, Writer, run, same

from rankmesh.compiler.element_types.value_types import OtherType, TensorType, TupleType
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.graph import MONAD
from rankmesh.compiler.mindir.mindir_pb2 import AttributeProto, ModelProto
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.compiler.mindir.values import constant, value_type

DATA = Path(__file__).parents[2] / "data" / "mindir"
F32 = np.dtype(np.float32)


def described(text: str, **fields: Any) -> AttributeProto:
    return AttributeProto(name="a", ref_attr_name=text, **fields)


def test_a_file_of_release_1_5() -> None:
    model = read_model(str(DATA / "old_relu" / "old_relu.mindir"))
    (node,) = model.entry.nodes
    assert (node.primitive, node.attributes) == (
        "ReLU",
        {"input_names": ("x",), "output_names": ("output",)},
    )
    assert node.type == TensorType(F32, (1, 1, 2, 2))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (described("scalar:value0", type=7, i=3), 3),
        (described("scalar:value0", type=7, i=0), 0),
        (described("scalar:value0", type=9, i=1), True),
        (described("scalar:value0", type=1, f=0.5), 0.5),
        (described("scalar:value0", type=11, d=0.1), 0.1),
        (described("scalar:value0", type=8, s=b"same"), "same"),
        (described("scalar:Tuple[value1,value2,]", type=7, ints=[3, 4]), (3, 4)),
        (described("scalar:List[value1,]", type=8, strings=[b"x"]), ("x",)),
        (described("scalar:Tuple[value1,value2,]", type=9, ints=[1, 0]), (True, False)),
        (
            described(
                "scalar:Tuple[Tuple[value1,value2,],Tuple[value3,],]", type=7, ints=[1, 2, 3]
            ),
            ((1, 2), (3,)),
        ),
        (described("scalar:Tuple[]"), ()),
        (described("none"), None),
        (described("Monad:UMonad"), MONAD),
        (described("type:tensor0", tensors=[{"data_type": 10}]), np.dtype(np.float16)),
    ],
)
def test_values(attribute: AttributeProto, value: Any) -> None:
    found = constant(attribute)
    assert found == value and type(found) is type(value)


def test_tensors() -> None:
    record = {"data_type": 6, "dims": [2], "raw_data": np.array([7, 8], np.int32).tobytes()}
    np.testing.assert_array_equal(constant(described("tensor:value0", tensors=[record])), [7, 8])
    pair = constant(described("tensor:Tuple[value1,value2,]", tensors=[record, record]))
    assert [array.tolist() for array in pair] == [[7, 8], [7, 8]]


def test_types() -> None:
    tensors = [
        {"name": "shape1", "data_type": 1, "dims": [2, 3]},
        {"name": "shape2", "data_type": 1, "dims": [-1]},
    ]
    one, two = TensorType(F32, (2, 3)), TensorType(F32, (-1,))
    assert value_type(described("shape:shape1,", tensors=tensors)) == one
    assert value_type(described("shape:Tuple[shape1,shape2,],", tensors=tensors)) == TupleType(
        (one, two)
    )
    nested = described("shape:Tuple[Tuple[shape2,],shape1,Monad,],", tensors=tensors)
    assert value_type(nested) == TupleType((TupleType((two,)), one, OtherType("monad")))


@pytest.mark.parametrize(
    ("attribute", "phrase"),
    [
        (
            described("scalar:Tuple[value1,value2,]", type=7, ints=[3]),
            "describes more values than it has",
        ),
        (described("nonsense:value0", i=1), "'nonsense:value0', which is unknown"),
        (described("scalar:" + "Tuple[" * 40), "nest deeper"),
        (described("scalar:[value0"), "at character 0"),
    ],
)
def test_descriptions_that_do_not_fit(attribute: AttributeProto, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        constant(attribute)


@given(st.text("TupleList[]value01,:x", max_size=60), st.lists(st.integers(-5, 5), max_size=4))
def test_any_description(text: str, ints: list[int]) -> None:
    try:
        constant(described(f"scalar:{text}", type=7, ints=ints))
    except ValueError as error:
        assert str(error)


def old(model: ModelProto) -> ModelProto:
    """A model of today as MindSpore 1.x would have written it: the primitives' attributes on the
    nodes.
    """
    records = {record.name: record for record in model.primitives}
    for node in model.graph.node:
        for attribute in node.attribute:
            _describe(attribute)
        record = records.get(node.op_type.removeprefix("REF::"))
        if record is not None:
            node.op_type = record.op_type
            for attribute in record.attribute:
                _describe(attribute)
                node.attribute.append(attribute)
    del model.primitives[:]
    return model


def _describe(attribute: AttributeProto) -> None:
    if attribute.ref_attr_name:
        return
    kind = attribute.type
    if attribute.name == "shape":
        _describe_type(attribute)
    elif kind in (23, 24):
        attribute.ref_attr_name = "Monad:UMonad"
    elif kind == 25:
        attribute.ref_attr_name = "none"
    elif kind == 19:
        attribute.ref_attr_name = (
            "tensor:value0" if attribute.tensors[0].HasField("raw_data") else "type:tensor0"
        )
    elif kind in (20, 21):
        _describe_items(attribute)
    else:
        attribute.ref_attr_name = "scalar:value0"


def _describe_items(attribute: AttributeProto) -> None:
    items = list(attribute.values)
    del attribute.values[:]
    attribute.ref_attr_name = (
        "scalar:Tuple[" + "".join(f"value{i + 1}," for i in range(len(items))) + "]"
    )
    for item in items:
        attribute.type = item.type
        for field in ("ints", "floats", "doubles", "strings", "tensors"):
            getattr(attribute, field).extend(getattr(item, field))


def _describe_type(attribute: AttributeProto) -> None:
    records = [item.tensors[0] for item in attribute.values if item.tensors] or list(
        attribute.tensors
    )
    names = [f"shape{i + 1}" for i in range(len(records))]
    for record, name in zip(records, names, strict=True):
        record.name = name
    listed = "".join(f"{name}," for name in names)
    attribute.ref_attr_name = (
        f"shape:Tuple[{listed}]," if attribute.type in (20, 21) else f"shape:{listed or 'Monad,'}"
    )
    copies = [type(record).FromString(record.SerializeToString()) for record in records]
    attribute.ClearField("values")
    attribute.ClearField("tensors")
    attribute.tensors.extend(copies)
    attribute.ClearField("type")


@pytest.mark.parametrize("name", ["lenet5", "mlp", "bert_encoder", "lstm_cell", "mobilenetv2"])
def test_whole_models_in_the_old_grammar(tmp_path: Path, name: str) -> None:
    path = DATA / name / f"{name}.mindir"
    (tmp_path / "old.mindir").write_bytes(
        old(ModelProto.FromString(path.read_bytes())).SerializeToString()
    )
    with np.load(path.with_suffix(".npz")) as arrays:
        saved = dict(arrays)
    proto = lower_mindir(read_model(str(tmp_path / "old.mindir")))
    inputs = {value.name: saved[f"in_{i}"] for i, value in enumerate(proto.graph.input)}
    for index, got in enumerate(run(tmp_path, proto, inputs)):
        same(got, saved[f"out_{index}"])


@pytest.mark.parametrize("prefix", ["", "S-Prim-"])
@pytest.mark.parametrize("transposed", [True, False])
def test_flags_that_are_inputs_today(tmp_path: Path, transposed: bool, prefix: str) -> None:
    x, w = (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(12, dtype=np.float32).reshape(3, 4),
    )
    writer = Writer()
    key = writer.node(
        "MatMul",
        [x, Parameter(w.T.copy() if transposed else w)],
        x @ w,
        {"transpose_a": False, "transpose_b": transposed},
    )
    old(writer.model)
    node = next(node for node in writer.graph.node if node.op_type == "MatMul")
    node.op_type = prefix + node.op_type
    path = writer.save(tmp_path / "one.mindir", key, x @ w)
    (got,) = run(tmp_path, lower_mindir(read_model(str(path))), {"x0": x})
    same(got, x @ w)
