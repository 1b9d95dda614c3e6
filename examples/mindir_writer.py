"""A writer of MindIR files, in the form of MindSpore's export: one graph, with its weights in the
file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rankmesh.compiler.element_types.dtypes import to_mindir
from rankmesh.compiler.mindir.mindir_pb2 import AttributeProto, ModelProto, TensorProto

_INTEGER, _TEXT, _BOOL, _TENSORS, _TUPLE = 7, 8, 9, 19, 20  # kinds of attributes
_FLOAT32 = np.dtype(np.float32)


class MindirWriter:
    """A MindIR model under construction; each method returns the name of the node that it adds."""

    def __init__(self) -> None:
        self._model = ModelProto(
            ir_version="1.1", producer_name="examples", model_version="1", little_endian=True
        )
        self._graph = self._model.graph
        self._graph.name = "main"

    def input(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any] = _FLOAT32) -> str:
        """An input of the model."""
        entry = self._graph.input.add(name=f"main:{name}")
        _describe(entry.tensor.add(), shape, dtype)
        return entry.name

    def weight(self, name: str, array: np.ndarray) -> str:
        """A parameter, which update_weights finds by its name."""
        entry = self._graph.parameter.add(
            name=f"main:{name}", ref_key=name, raw_data=array.tobytes()
        )
        _describe(entry, array.shape, array.dtype)
        return entry.name

    def node(
        self,
        primitive: str,
        *inputs: Any,
        shape: tuple[int, ...],
        dtype: np.dtype[Any] = _FLOAT32,
        **attributes: Any,
    ) -> str:
        """A node with one result of this shape; inputs that are no names are constants."""
        operands = [entry if isinstance(entry, str) else self._constant(entry) for entry in inputs]
        name = f"main:node_{len(self._graph.node)}"
        record = self._model.primitives.add(
            name=f"{primitive}:{name}", op_type=primitive, prim_type=1
        )
        for key, value in attributes.items():
            _write(record.attribute.add(name=key), value)
        node = self._graph.node.add(
            name=name,
            op_type=f"REF::{record.name}",
            input=operands,
            output=[name],
            domain=f"Default/{primitive}",
        )
        _describe(node.attribute.add(name="shape", type=_TENSORS).tensors.add(), shape, dtype)
        return name

    def save(self, path: Path, output: str, shape: tuple[int, ...]) -> None:
        """Write the file; the model returns `output`, float32 of this shape."""
        _describe(self._graph.output.add(name=output).tensor.add(), shape, _FLOAT32)
        path.write_bytes(self._model.SerializeToString())

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self._graph.node)}"
        _write(
            self._graph.node.add(name=name, output=[name], op_type="Constant").attribute.add(
                name="value"
            ),
            value,
        )
        return name


def _describe(record: TensorProto, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    record.dims.extend(shape)
    record.data_type = to_mindir(dtype)


def _write(attribute: AttributeProto, value: bool | int | str | tuple[int, ...]) -> None:
    """A constant or an attribute; a bool is an int too, so it comes first."""
    if isinstance(value, bool):
        attribute.type, attribute.i = _BOOL, int(value)
    elif isinstance(value, int):
        attribute.type, attribute.i = _INTEGER, value
    elif isinstance(value, str):
        attribute.type, attribute.s = _TEXT, value.encode()
    else:
        attribute.type = _TUPLE
        for item in value:
            _write(attribute.values.add(), item)
