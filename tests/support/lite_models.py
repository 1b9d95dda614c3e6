"""Models in .ms form for tests: written from a list of nodes, and evaluated node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from rankmesh.compiler.element_types import dtypes
from rankmesh.compiler.lite.flatbuffer_writer import FlatbufferWriter, Union
from rankmesh.compiler.lite.lite_file import IDENTIFIER, read_lite
from rankmesh.compiler.lite.schema.lite_schema import lite_schema
from rankmesh.compiler.mindir.graph import MindirModel, MindirNode
from rankmesh.compiler.model_file.mindir_format import load_mindir


class LiteModel:
    """A .ms file while it is made: tensors by number, then nodes."""

    def __init__(self, version: str = "MindSpore Lite 2.3.1") -> None:
        self.version = version
        self.tensors: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.graphs: list[dict[str, Any]] = []

    def input(self, array: np.ndarray, name: str = "") -> int:
        """An input of the shape and dtype of an array."""
        self.inputs.append(self.value(array.dtype, array.shape, name or f"in_{len(self.inputs)}"))
        return self.inputs[-1]

    def value(self, dtype: Any, shape: Sequence[int] = (), name: str = "", **fields: Any) -> int:
        """A tensor that a node computes."""
        code = dtypes.to_type_id(np.dtype(dtype))
        record = {"nodeType": 2, "dataType": code, "dims": list(shape), "name": name, **fields}
        self.tensors.append(record)
        return len(self.tensors) - 1

    def constant(self, array: Any, name: str = "", **fields: Any) -> int:
        """A constant tensor; `data` among the fields replaces its bytes."""
        array = np.asarray(array)
        data = list(array.tobytes())
        record = {"data": data, "dims": list(array.shape), "name": name, **fields}
        record["dataType"] = dtypes.to_type_id(array.dtype)
        self.tensors.append(record)
        return len(self.tensors) - 1

    def node(
        self,
        primitive: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        attributes: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """A node with a name of its own."""
        union = Union(primitive, attributes or {})
        name = f"{primitive}_{len(self.nodes)}"
        record = {"inputIndex": list(inputs), "outputIndex": list(outputs), "name": name}
        self.nodes.append({**record, "primitive": {"value": union}, **fields})

    def content(self) -> bytes:
        """The whole file."""
        root = {
            "version": self.version,
            "inputIndex": self.inputs,
            "outputIndex": self.outputs,
            "nodes": self.nodes,
            "allTensors": self.tensors,
            "subGraph": self.graphs
            or [
                {
                    "inputIndices": self.inputs,
                    "outputIndices": self.outputs,
                    "nodeIndices": list(range(len(self.nodes))),
                }
            ],
        }
        return b"".join(FlatbufferWriter(lite_schema(), IDENTIFIER).chunks("MetaGraph", root))


def run_model(model: MindirModel, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model, by onnxruntime."""
    loaded = load_mindir(model)
    options = onnxruntime.SessionOptions()
    folder = str(Path(loaded.folder) / "m.onnx")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(Path(folder).parent)
    )
    session = onnxruntime.InferenceSession(loaded.model.SerializeToString(), options)
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def results_of_nodes(
    model: MindirModel, inputs: Sequence[np.ndarray]
) -> Iterator[tuple[MindirNode, np.ndarray]]:
    """Each node of the entry graph with its result, when all before it ran too."""
    for node in model.entry.nodes:
        graph = replace(model.entry, output=node.key, output_type=node.type)
        yield node, run_model(replace(model, entry=graph), inputs)[0]


def ran(
    path: Path,
    primitive: str,
    inputs: Sequence[np.ndarray],
    constants: Sequence[Any] = (),
    attributes: Mapping[str, Any] | None = None,
    outputs: Sequence[tuple[Any, Sequence[int]]] = ((np.float32, ()),),
    **fields: Any,
) -> list[np.ndarray]:
    """The results of one primitive, with inputs and then constants."""
    model = LiteModel()
    taken = [model.input(one) for one in inputs] + [model.constant(one) for one in constants]
    given = [model.value(dtype, shape) for dtype, shape in outputs]
    model.node(primitive, taken, given, attributes, **fields)
    model.outputs = given
    file = path / "m.ms"
    file.write_bytes(model.content())
    return run_model(read_lite(str(file)), inputs)
