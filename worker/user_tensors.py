"""The tensors of a user's ONNX file: checked, dense, and with no more about external data than onnxruntime needs.

onnxruntime trusts what a file says about external data: `prepacked_<n>` are weights as it packed them itself, which it
reads without looking at their size. Sparse tensors become dense here, as onnxruntime 1.23 takes their indices
unchecked, and cannot read them from other files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from ..comm.errors import ModelError
from .onnx_values import stored_bytes
from .paths import resolve_inside
from .sparse_tensors import dense
from .stamp import Stamp

_MOST_SPARSE = 1 << 29
"""Bytes that the sparse tensors of a file may take once they are dense."""


class UserTensors:
    """All tensors of the model that a user's file at `path` holds; their external data lie inside `folder`."""

    def __init__(self, path: str, folder: str) -> None:
        self._path, self._folder, self._room = path, folder, _MOST_SPARSE
        self.files: dict[str, Stamp] = {}
        """Those with external data, by the names that the tensors have for them, as they were before they were read."""

    def settle(self, model: ModelProto) -> None:
        """Check and rewrite the tensors in place, wherever the model holds any. Raises ModelError."""
        del model.training_info[:]
        self._graph(model.graph)
        for function in model.functions:
            self._nodes(function.node)
            self._attributes("", function.attribute_proto)

    def _graph(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            self._tensor(tensor)
        for sparse in graph.sparse_initializer:
            graph.initializer.append(self._dense(sparse))
        del graph.sparse_initializer[:]
        self._nodes(graph.node)

    def _nodes(self, nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            self._attributes(node.op_type, node.attribute)

    def _attributes(self, op_type: str, attributes: Iterable[AttributeProto]) -> None:
        for attribute in attributes:
            for tensor in (*([attribute.t] if attribute.HasField("t") else ()), *attribute.tensors):
                self._tensor(tensor)
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                self._graph(graph)
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                self._sparse(op_type, attribute)

    def _sparse(self, op_type: str, attribute: AttributeProto) -> None:
        if (op_type, attribute.name) != ("Constant", "sparse_value") or attribute.sparse_tensors:
            raise ModelError(f"{self._path}: a node {op_type} has a sparse tensor as its attribute '{attribute.name}', "
                             f"expected them as sparse_value of a Constant and as initializers only.")
        made = self._dense(attribute.sparse_tensor)
        attribute.CopyFrom(AttributeProto(name="value", type=AttributeProto.TENSOR, t=made))

    def _dense(self, sparse: SparseTensorProto) -> TensorProto:
        self._tensor(sparse.values)
        self._tensor(sparse.indices)
        made = dense(sparse, self._path, self._folder, self._room)
        self._room -= len(made.raw_data)
        return made

    def _tensor(self, tensor: TensorProto) -> None:
        """Leave of its external data the file, offset and length, all of it inside that file."""
        entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}  # bytes where they are no text
        del tensor.external_data[:]
        if tensor.data_location != TensorProto.EXTERNAL:
            return
        offset, length = self._place(tensor, entries)
        for key, value in (("location", entries["location"]), ("offset", str(offset)), ("length", str(length))):
            tensor.external_data.add(key=key, value=value)

    def _place(self, tensor: TensorProto, entries: dict[str, str]) -> tuple[int, int]:
        """Where the data of a tensor lie in their file, in bytes."""
        what = f"{self._path}: initializer '{tensor.name}'"
        location = entries.get("location", "")
        data = resolve_inside(self._folder, location, what)
        if location not in self.files:
            self.files[location] = Stamp.of(os.path.join(self._folder, location))
        try:
            needed = stored_bytes(tensor)
            offset, length = _number(entries, "offset"), _number(entries, "length") or needed
        except ValueError as error:
            raise ModelError(f"{what} has external data that cannot be read: {error}. Export it again.") from error
        end, size = offset + max(length, needed), os.path.getsize(data)
        if offset < 0 or length < 0 or end > size:
            raise ModelError(f"{data}: is too short or of another model: initializer '{tensor.name}' of {self._path} "
                             f"lies at bytes {offset} to {end}, and the file has {size}. Copy it again, whole.")
        if length != needed:
            raise ModelError(f"{what} has {length} bytes of external data, expected {needed} for its shape "
                             f"{list(tensor.dims)} and type. Export it again.")
        return offset, length


def _number(entries: dict[str, str], key: str) -> int:
    try:
        return int(entries.get(key, "0"))
    except ValueError:
        raise ValueError(f"the {key} '{entries[key]}' is no number") from None
