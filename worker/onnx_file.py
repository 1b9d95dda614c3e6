"""Reads an ONNX file; its weights stay there, mapped, as if it were a file of external data of its own."""

from __future__ import annotations

import mmap
import os

from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from ..comm.errors import ModelError
from ..comm.regular_file import open_regular
from . import dtypes
from .mindir.wire import INITIALIZER, cut_weights
from .onnx_values import elements

_LEAST = 4096  # bytes; smaller ones are shapes and the like, which have to be at hand


def read_onnx(path: str, in_place: bool) -> ModelProto:
    """The model in the file at `path`; ModelError where it holds none.

    With `in_place` weights of 4 KiB and more are external data in the file itself: neither copied nor held.
    """
    try:
        with open_regular(path) as file:
            stays = in_place and _is_itself(path)
            model = _mapped(path, file.fileno()) if stays else ModelProto.FromString(file.read())
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{path}: not a readable ONNX file: {error}. Export or copy it again.") from error
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path}: not a readable ONNX file: it holds no graph.")
    return model


def _is_itself(path: str) -> bool:
    """Whether the file is no link to another folder, which external data must not lie in; and has content to map."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.realpath(path) == os.path.join(os.path.realpath(folder), name) and os.path.getsize(path) > 0


def _mapped(path: str, fd: int) -> ModelProto:
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as buffer:
        cut = cut_weights(buffer, INITIALIZER, _LEAST)
        model = ModelProto.FromString(cut.message)
        for tensor, place in zip(model.graph.initializer, cut.weights, strict=True):
            if place and _fits(tensor, place[1]):
                _point(tensor, os.path.basename(path), *place)
            elif place:
                tensor.raw_data = bytes(buffer[place[0]:place[0] + place[1]])
    return model


def _fits(tensor: TensorProto, size: int) -> bool:
    """Whether these are the elements, one after the other: not of packed types, nor where the file is wrong."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return False
    try:
        return size == elements(tensor.dims) * dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:
        return False


def _point(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Say where the data lie: https://onnx.ai/onnx/repo-docs/ExternalData.html"""
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
