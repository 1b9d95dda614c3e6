"""The pivot: any model file as one ONNX model whose collectives are nodes of the domain `rankmesh`."""

from __future__ import annotations

import os
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from ..comm.errors import ModelError
from .paths import resolve_inside

_ONNX_FIRST_BYTE = b"\x08"  # field 1 of an ONNX model is a number, of a MindIR a text


@dataclass(frozen=True, slots=True)
class Pivot:
    """An ONNX model, and the folder inside which its external initializers lie."""

    model: ModelProto
    path: str

    @property
    def folder(self) -> str:
        """The model's folder, absolute."""
        return os.path.dirname(os.path.abspath(self.path))


def load_pivot(path: str) -> Pivot:
    """Read a MindIR or ONNX file, told apart by content; ModelError names the file and the reason."""
    if is_onnx(path):
        return Pivot(_read_onnx(path), path)
    from .lowering.walk import lower  # what only MindIR needs is loaded for MindIR only
    from .mindir.reader import read_model

    return Pivot(lower(read_model(path)), path)


def is_onnx(path: str) -> bool:
    """Whether the file's first byte is that of an ONNX model."""
    try:
        with open(path, "rb") as file:
            return file.read(1) == _ONNX_FIRST_BYTE
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error


def _read_onnx(path: str) -> ModelProto:
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{path}: not a readable ONNX file: {error}. Export or copy it again.") from error
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path}: not a readable ONNX file: it holds no graph.")
    for initializer in model.graph.initializer:
        if initializer.data_location == TensorProto.EXTERNAL:
            _check_external(path, initializer)
    return model


def _check_external(path: str, record: TensorProto) -> None:
    entries = {entry.key: entry.value for entry in record.external_data}
    who = f"{path}: initializer '{record.name}'"
    data = resolve_inside(os.path.dirname(os.path.abspath(path)), entries.get("location", ""), who)
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", os.path.getsize(data) - offset))
    except ValueError as error:
        raise ModelError(f"{who} has an offset or length that is no number: {entries}.") from error
    size = os.path.getsize(data)
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(f"{data}: is too short or of another model: {who[len(path) + 2:]} of {path} lies at bytes "
                         f"{offset} to {offset + length}, and the file has {size}. Copy it again, whole.")
