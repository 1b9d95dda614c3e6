"""Tensors of a user's ONNX file: checked, made dense, and stripped of excess external data.

onnxruntime trusts a file's statements about external data: `prepacked_<n>` are weights as it packed
them itself, which it reads without looking at their size. Sparse tensors become dense here:
onnxruntime 1.23 takes their indices unchecked, and cannot read them from other files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    numpy_helper,
)

from ...comm.errors import ModelError
from ...comm.host.stamp import Stamp
from ..element_types import dtypes
from ..mindir.paths import DataFolders
from ..onnx_graph.external import external_array, set_entries
from ..onnx_graph.onnx_values import elements, stored_bytes
from .tensor_elements import check_elements

MAX_SPARSE = 1 << 29
"""Bytes that the sparse tensors of a file may take once they are dense."""


class _DataFile(NamedTuple):
    """A file with external data: its real path, its place from the model's folder, its bytes."""

    path: str
    place: str
    size: int


class UserTensors:
    """All tensors of the ONNX file at `path`; their external data lie inside `weights_folder`, by
    default beside it.
    """

    def __init__(self, path: str, weights_folder: str) -> None:
        self._path = path
        self._folders = DataFolders(path, weights_folder)
        self._data: dict[str, _DataFile] = {}
        self._room = MAX_SPARSE
        self.files: dict[str, Stamp] = {}
        """The stamps of the files with external data, taken before these were read, by their
        locations.
        """

    def settle(self, model: ModelProto) -> None:
        """Check and rewrite all tensors of the model in place. Raises ModelError."""
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
            raise ModelError(
                f"{self._path}: a node {op_type} has a sparse tensor as its attribute "
                f"'{attribute.name}', expected them as sparse_value of a Constant and as "
                "initializers only."
            )
        made = self._dense(attribute.sparse_tensor)
        attribute.CopyFrom(AttributeProto(name="value", type=AttributeProto.TENSOR, t=made))

    def _dense(self, sparse: SparseTensorProto) -> TensorProto:
        self._reduce(sparse.values)
        self._reduce(sparse.indices)
        made = dense(sparse, self._path, self._folders.base, self._room)
        self._room -= len(made.raw_data)
        return made

    def _tensor(self, tensor: TensorProto) -> None:
        if tensor.data_location != TensorProto.EXTERNAL:
            check_elements(tensor, self._path)
        self._reduce(tensor)

    def _reduce(self, tensor: TensorProto) -> None:
        """Reduce external data to the file, offset and length, which must lie inside that file."""
        entries = {
            str(entry.key): str(entry.value) for entry in tensor.external_data
        }  # bytes, if they are not UTF-8
        del tensor.external_data[:]
        if tensor.data_location != TensorProto.EXTERNAL:
            return
        what = f"{self._path}: initializer '{tensor.name}'"
        data = self._data_file(entries.get("location", ""), what)
        offset, length = self._extent(tensor, entries, data)
        set_entries(tensor, {"location": data.place, "offset": offset, "length": length})

    def _data_file(self, location: str, what: str) -> _DataFile:
        """The file at `location`; ModelError, which names `what`, where it may not be read."""
        if location not in self._data:
            path = self._folders.resolve(location, what)
            self.files[location] = Stamp.of(os.path.join(self._folders.named, location))
            place = self._folders.place(location, what)
            self._data[location] = _DataFile(path, place, os.path.getsize(path))
        return self._data[location]

    def _extent(
        self, tensor: TensorProto, entries: dict[str, str], data: _DataFile
    ) -> tuple[int, int]:
        """The offset and length of a tensor's data in their file, in bytes."""
        what = f"{self._path}: initializer '{tensor.name}'"
        try:
            needed = stored_bytes(tensor)
            offset, length = _number(entries, "offset"), _number(entries, "length") or needed
        except ValueError as error:
            raise ModelError(
                f"{what} has external data that cannot be read: {error}. Export it again."
            ) from error
        end = offset + max(length, needed)
        if offset < 0 or length < 0 or end > data.size:
            raise ModelError(
                f"{data.path}: is too short or of another model: initializer '{tensor.name}' of "
                f"{self._path} lies at bytes {offset} to {end}, and the file has {data.size}. "
                "Copy it again, whole."
            )
        if length != needed:
            raise ModelError(
                f"{what} has {length} bytes of external data, expected {needed} for its shape "
                f"{list(tensor.dims)} and type. Export it again."
            )
        return offset, length


def _number(entries: dict[str, str], key: str) -> int:
    try:
        return int(entries.get(key, "0"))
    except ValueError:
        raise ValueError(f"the {key} '{entries[key]}' is not a number") from None


def dense(sparse: SparseTensorProto, path: str, folder: str, largest: int) -> TensorProto:
    """The dense tensor of the same name and type; external data lie in `folder`, and were checked.

    Raises ModelError, with the model's `path`, where indices and values do not fit each other or
    the shape, and where the tensor would take more than `largest` bytes.
    """
    what = f"{path}: the sparse tensor '{sparse.values.name}'"
    try:
        dtype = dtypes.from_onnx(sparse.values.data_type)
        size = _size(sparse, dtype.itemsize, largest)
        values, places = (
            _array(sparse.values, folder).astype(dtype, copy=False),
            _places(sparse, folder, size),
        )
        if values.shape != places.shape:
            raise ValueError(
                f"it has values of the shape {list(values.shape)} at {len(places)} places"
            )
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{what} is wrong: {error}. Export the model again, with dense weights."
        ) from error
    whole = np.zeros(size, dtype)
    whole[places] = values
    return TensorProto(
        name=sparse.values.name,
        data_type=sparse.values.data_type,
        dims=sparse.dims,
        raw_data=whole.tobytes(),
    )


def _size(sparse: SparseTensorProto, itemsize: int, largest: int) -> int:
    """The number of elements of the dense tensor."""
    size = elements(sparse.dims)
    if size * itemsize > largest:
        raise ValueError(
            f"its shape {list(sparse.dims)} takes {size * itemsize} bytes, expected 0 to {largest}"
        )
    return size


def _places(sparse: SparseTensorProto, folder: str, size: int) -> NDArray[np.int64]:
    """The index of each value in the flat dense tensor."""
    if sparse.indices.data_type != TensorProto.INT64:
        raise ValueError("its indices are not of the type int64")
    indices = _array(sparse.indices, folder)
    if indices.ndim == 2:
        indices = np.asarray(
            np.ravel_multi_index(tuple(indices.T), tuple(sparse.dims))
        )  # ValueError if outside
    elif indices.ndim != 1 or (indices.size and not 0 <= indices.min() <= indices.max() < size):
        raise ValueError(f"its indices are not all from 0 to {size - 1}")
    return indices


def _array(tensor: TensorProto, folder: str) -> NDArray[Any]:
    if tensor.data_location == TensorProto.EXTERNAL:
        return external_array(tensor, folder)
    array: NDArray[Any] = numpy_helper.to_array(tensor)
    return array
