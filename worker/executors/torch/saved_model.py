"""Saved model: a segment's graph in a file, and its weights in one beside it, to be mapped."""

from __future__ import annotations

import os
from typing import BinaryIO

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from ....compiler.onnx_graph.external import external_array, location, set_entries

_ALIGN = 64
_SMALL = 1024
"""Bytes; smaller initializers stay in the graph."""


def save_model(model: ModelProto, folder: str, place: str) -> None:
    """Write `model` to the new file `place`, and its weights to one beside it. Raises OSError.

    External initializers lie inside `folder`.
    """
    made = ModelProto()
    made.CopyFrom(model)
    weights = f"{place}.weights"
    with open(weights, "wb") as file:
        for record in made.graph.initializer:
            external = bool(location(record))
            array = external_array(record, folder) if external else numpy_helper.to_array(record)
            if external or array.nbytes >= _SMALL:
                _move(record, np.ascontiguousarray(array), file, os.path.basename(weights))
    onnx.save(made, place)


def _move(record: TensorProto, array: np.ndarray, file: BinaryIO, name: str) -> None:
    """Write an initializer's data to a file, and note the place."""
    start = -(-file.tell() // _ALIGN) * _ALIGN
    file.seek(start)
    file.write(array.reshape(-1).view(np.uint8).data)
    kept = TensorProto(name=record.name, data_type=record.data_type, dims=record.dims)
    kept.data_location = TensorProto.EXTERNAL
    set_entries(kept, {"location": name, "offset": start, "length": array.nbytes})
    record.CopyFrom(kept)
