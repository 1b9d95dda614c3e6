"""Collectives of ONNX shards as MindSpore's primitives: read again, and run by two ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rankmesh
from rankmesh.comm.errors import ModelError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.compiler.model_file.model_format import load_model

PAIR: dict[str, Any] = {"group": "world", "ranks": [0, 1]}
SUB: dict[str, Any] = {"group": "1-a", "ranks": [2, 5, 7]}
COLLECTIVES: list[tuple[str, dict[str, Any]]] = [
    ("AllReduce", {**PAIR, "reduction": "max"}),
    ("AllReduce", {**SUB, "reduction": "sum"}),
    ("AllGather", {**SUB, "size": 3}),
    ("ReduceScatter", {**SUB, "size": 3, "reduction": "prod"}),
    ("AllToAll", {**PAIR, "size": 2}),
    ("Broadcast", {**PAIR, "root": 1}),
    ("Reduce", {**SUB, "root": 2, "reduction": "min"}),
    ("CollectiveGather", {**SUB, "size": 3, "position": 1, "root": 2}),
    ("CollectiveScatter", {**SUB, "size": 3, "position": 1, "root": 0}),
]


def shard(nodes: list[onnx.NodeProto], shape: list[int | str] | None = None) -> onnx.ModelProto:
    """A shard from x to y."""
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape or [6, 4])
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "shard", [info], [result])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("rankmesh", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def collective(
    operator: str, inputs: list[str], outputs: list[str], **attributes: object
) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, outputs, operator, domain="rankmesh", **attributes)


def converted(model: onnx.ModelProto, folder: Path, name: str = "shard") -> Path:
    """The MindIR file of a shard."""
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return convert_model(ConversionSettings(str(path), str(folder / name)))


def collectives_of(path: Path) -> list[onnx.NodeProto]:
    """The collectives of a MindIR file, lowered again."""
    return [one for one in load_model(str(path)).model.graph.node if one.domain == "rankmesh"]


@pytest.mark.pure
@pytest.mark.parametrize(("operator", "attributes"), COLLECTIVES)
def test_attributes_survive(operator: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    path = converted(shard([collective(operator, ["x"], ["y"], **attributes)]), tmp_path)
    (found,) = collectives_of(path)
    assert found.op_type == operator
    read = {one.name: helper.get_attribute_value(one) for one in found.attribute}
    read = {key: one.decode() if isinstance(one, bytes) else one for key, one in read.items()}
    expected = {**attributes, "group": attributes["group"].replace("world", "hccl_world_group")}
    assert read.items() >= expected.items()


@pytest.mark.pure
def test_attributes_are_those_that_mindspore_writes(tmp_path: Path) -> None:
    path = converted(shard([collective("AllReduce", ["x"], ["y"], **PAIR)]), tmp_path)
    (node,) = [one for one in read_model(str(path)).entry.nodes if one.primitive == "AllReduce"]
    assert dict(node.attributes) == {
        "op": "sum",
        "group": "hccl_world_group",
        "rank_list": (0, 1),
        "group_rank_ids": (0, 1),
        "group_ranks": "WORLD_GROUP",
        "fusion": 0,
        "index": 0,
        "comm_reuse": True,
        "no_eliminate": True,
    }


@pytest.mark.pure
def test_stages_of_a_pipeline(tmp_path: Path) -> None:
    sends = shard(
        [
            helper.make_node("Neg", ["x"], ["z"], "negation"),
            collective("Send", ["z"], [], to=1, tag=3, **PAIR),
            helper.make_node("Identity", ["x"], ["y"], "placeholder"),
        ]
    )
    attributes = {"source": 0, "tag": 3, "shape": [6, 4], "dtype": TensorProto.FLOAT, **PAIR}
    receives = shard(
        [
            collective("Receive", [], ["z"], **attributes),
            helper.make_node("Add", ["z", "x"], ["y"], "sum"),
        ]
    )
    (sent,) = collectives_of(converted(sends, tmp_path, "first"))
    (received,) = collectives_of(converted(receives, tmp_path, "second"))
    assert (sent.op_type, received.op_type) == ("Send", "Receive")
    read = {one.name: helper.get_attribute_value(one) for one in received.attribute}
    assert (read["source"], read["tag"], read["shape"]) == (0, 3, [6, 4])


@pytest.mark.pure
def test_neighbours(tmp_path: Path) -> None:
    node = collective("NeighborExchange", ["x"], ["y"], sends_to=[1], receives_from=[1], **PAIR)
    model = shard([node])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2]))
    (found,) = collectives_of(converted(model, tmp_path))
    read = {one.name: helper.get_attribute_value(one) for one in found.attribute}
    assert (read["sends_to"], read["receives_from"]) == ([1], [1])


@pytest.mark.pure
def test_a_receive_of_an_open_shape(tmp_path: Path) -> None:
    attributes = {"source": 0, "shape": [-1, 4], "dtype": TensorProto.FLOAT, **PAIR}
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], "sizes"),
        collective("Receive", ["sizes"], ["y"], **attributes),
    ]
    with pytest.raises(ModelError, match=r"Receive \(node Receive\): .*fix the shapes by --input"):
        converted(shard(nodes, ["batch", 4]), tmp_path)


def test_two_ranks_compute_what_onnx_shards_do(tmp_path: Path) -> None:
    for rank in range(2):
        factor = helper.make_tensor("factor", TensorProto.FLOAT, [], [rank + 1.0])
        nodes = [
            helper.make_node("Constant", [], ["factor"], "factor", value=factor),
            helper.make_node("Mul", ["x", "factor"], ["part"], "part"),
            collective("AllReduce", ["part"], ["y"], **PAIR),
        ]
        model = shard(nodes)
        model.metadata_props.add(key="rankmesh.slicing", value="same")
        converted(model, tmp_path, f"scaled_rank{rank}")
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    with rankmesh.Orchestrator(tmp_path / "scaled_rank{rank}.mindir", cache=False) as ranks:
        np.testing.assert_array_equal(ranks.predict({"x": x})["y"], 3 * x)
