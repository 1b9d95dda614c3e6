"""The step graph of a decoder: its inputs, and the nodes that cannot be rewritten."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.decoders.genai_config import read_genai_config
from rankmesh.compiler.decoders.step_graph import LOGITS, step_graph
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.onnx_graph.state_notes import read_states

pytestmark = pytest.mark.pure

FOLDER = Path(__file__).parents[2] / "data" / "decoders" / "llama"
CONFIG = read_genai_config(str(FOLDER / "genai_config.json"))


def decoder() -> onnx.ModelProto:
    return onnx.load(FOLDER / "model.onnx", load_external_data=False)


def shape(info: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]


def test_inputs_and_outputs() -> None:
    graph = load_model(str(FOLDER / "genai_config.json")).model.graph
    inputs = {info.name: shape(info) for info in graph.input}
    assert inputs["tokens"] == [1, "tokens"]
    assert inputs["key.1"] == inputs["value.1"] == ["sequences", 2, "capacity", 16]
    assert inputs["kept.0.0"] == ["sequences", (4 + 2 + 2) * 16]
    assert not {"attention_mask", "input_ids", "past_key_values.0.key"} & inputs.keys()
    outputs = {info.name: shape(info) for info in graph.output}
    assert outputs["logits"] == [1, "wanted", 512]
    assert {"next_key.0", "next_value.1", "next_kept.1.0"} <= outputs.keys()


def test_states_are_noted() -> None:
    notes = {
        one.key: one.value
        for one in load_model(str(FOLDER / "genai_config.json")).model.metadata_props
    }
    states = read_states(notes)
    assert states["next_key.0"] == "key.0"
    assert states["next_kept.1.0"] == "kept.1.0"
    assert states[LOGITS] == ""


def test_nodes_for_the_mask_are_gone() -> None:
    graph = load_model(str(FOLDER / "genai_config.json")).model.graph
    assert not {"ReduceSum", "Shape"} & {node.op_type for node in graph.node}


def attention(model: onnx.ModelProto) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == "GroupQueryAttention")


@pytest.mark.parametrize(
    ("place", "what"), [(9, "takes positions"), (10, "takes a bias"), (12, "quantised caches")]
)
def test_attentions_that_differ_are_refused(place: int, what: str) -> None:
    model = decoder()
    node = attention(model)
    node.input.extend([""] * (place + 1 - len(node.input)))
    node.input[place] = "cos_cache"
    with pytest.raises(ModelError, match=rf"node '{node.name}' \(GroupQueryAttention\).*{what}"):
        step_graph(model, CONFIG, "model.onnx")


def test_other_attentions_are_refused() -> None:
    model = decoder()
    node = helper.make_node("MultiHeadAttention", ["a"], ["b"], "old", domain="com.microsoft")
    model.graph.node.insert(0, node)
    with pytest.raises(ModelError, match=r"'old' \(MultiHeadAttention\) keeps its keys and values"):
        step_graph(model, CONFIG, "model.onnx")


def test_an_input_that_stays_is_refused() -> None:
    model = decoder()
    model.graph.node[-1].input[1] = "attention_mask"
    with pytest.raises(ModelError, match="takes the input 'attention_mask'"):
        step_graph(model, CONFIG, "model.onnx")


def test_too_few_layers_are_refused() -> None:
    model = decoder()
    node = attention(model)
    node.op_type, node.domain = "Identity", ""
    with pytest.raises(
        ModelError, match="found 1 nodes GroupQueryAttention, expected one for each"
    ):
        step_graph(model, CONFIG, "model.onnx")


def test_the_window_of_the_configuration() -> None:
    """The builder writes it beside the graph, for Mistral's family."""
    path = FOLDER.parent / "mistral" / "genai_config.json"
    nodes = load_model(str(path)).model.graph.node
    attentions = [node for node in nodes if node.op_type == "GroupQueryAttention"]
    found = [
        helper.get_attribute_value(one)
        for node in attentions
        for one in node.attribute
        if one.name == "local_window_size"
    ]
    assert found == [8, 8]
