"""Sparse tensors of ONNX as dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import SparseTensorProto, TensorProto, numpy_helper

from ..comm.errors import ModelError
from . import dtypes
from .external import external_array
from .onnx_values import elements


def dense(sparse: SparseTensorProto, path: str, folder: str, largest: int) -> TensorProto:
    """The dense tensor of the same name and type; external data lie in `folder`, and were checked.

    ModelError, with the model's `path`, where indices and values do not fit each other or the shape, and where the
    tensor would take more than `largest` bytes.
    """
    what = f"{path}: the sparse tensor '{sparse.values.name}'"
    try:
        dtype = dtypes.from_onnx(sparse.values.data_type)
        size = _size(sparse, dtype.itemsize, largest)
        values, places = _array(sparse.values, folder).astype(dtype, copy=False), _places(sparse, folder, size)
        if values.shape != places.shape:
            raise ValueError(f"it has values of the shape {list(values.shape)} at {len(places)} places")
    except (ValueError, TypeError) as error:
        raise ModelError(f"{what} is wrong: {error}. Export the model again, with dense weights.") from error
    whole = np.zeros(size, dtype)
    whole[places] = values
    return TensorProto(name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims,
                       raw_data=whole.tobytes())


def _size(sparse: SparseTensorProto, itemsize: int, largest: int) -> int:
    """How many elements the dense tensor has."""
    size = elements(sparse.dims)
    if size * itemsize > largest:
        raise ValueError(f"its shape {list(sparse.dims)} takes {size * itemsize} bytes, expected 0 to {largest}")
    return size


def _places(sparse: SparseTensorProto, folder: str, size: int) -> NDArray[np.int64]:
    """Where in the flat dense tensor each value goes."""
    if sparse.indices.data_type != TensorProto.INT64:
        raise ValueError("its indices are not of the type int64")
    indices = _array(sparse.indices, folder)
    if indices.ndim == 2:
        indices = np.asarray(np.ravel_multi_index(tuple(indices.T), tuple(sparse.dims)))  # ValueError where outside
    elif indices.ndim != 1 or (indices.size and not 0 <= indices.min() <= indices.max() < size):
        raise ValueError(f"its indices are not all from 0 to {size - 1}")
    return indices


def _array(tensor: TensorProto, folder: str) -> NDArray[Any]:
    if tensor.data_location == TensorProto.EXTERNAL:
        return external_array(tensor, folder)
    array: NDArray[Any] = numpy_helper.to_array(tensor)
    return array
