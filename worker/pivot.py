"""The pivot: any model file as one ONNX model whose collectives are nodes of the domain `rankmesh`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from onnx import ModelProto

from ..comm.errors import ModelError
from ..comm.regular_file import open_regular
from .onnx_file import read_onnx
from .stamp import Files, Stamp
from .user_tensors import UserTensors

if TYPE_CHECKING:
    from .mindir.crypto import Decryption
    from .mindir.graph import Model

FLATBUFFERS = (b"MSL1", b"MSL2")
"""What MindSpore Lite's own files have at byte 4."""
_ONNX_FIRST_BYTE, _MINDIR_FIRST_BYTE = b"\x08", b"\x0a"  # field 1 of an ONNX model is a number, of a MindIR a text


@dataclass(frozen=True, slots=True)
class Pivot:
    """An ONNX model, and the folder inside which its external initializers lie.

    Those of encrypted files lie in `memory`, by location: plain text, which must not be written to any disk.
    """

    model: ModelProto
    path: str
    memory: Mapping[str, memoryview] = field(default_factory=dict)
    data_folder: str = ""
    unused: tuple[str, ...] = ()
    """The parameters of a MindIR that none of its nodes takes."""
    files: Files = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The folder inside which the external initializers lie, absolute: by default the model's."""
        return self.data_folder or os.path.dirname(os.path.abspath(self.path))


def load_pivot(path: str, decryption: Decryption | None = None, weights_folder: str = "") -> Pivot:
    """Read a MindIR or ONNX file, told apart by content; ModelError names the file and the reason.

    `decryption` opens encrypted MindIR; with it, other files are refused unless it allows them. External weights lie
    in `weights_folder`, by default in the folder of `path`.
    """
    if is_onnx(path):
        if decryption:
            decryption.refuse_plain(path)
        own = Stamp.of(path)
        pivot = Pivot(read_onnx(path, not weights_folder), path, data_folder=weights_folder)
        tensors = UserTensors(path, pivot.folder)
        try:
            tensors.settle(pivot.model)
        except UnicodeDecodeError as error:  # protobuf decodes names only when they are looked at
            raise ModelError(f"{path}: corrupt: a name is no text ({error}). Export it again.") from error
        return replace(pivot, files={"": own, **tensors.files})
    from .mindir.reader import read_model  # what only MindIR needs is loaded for MindIR only

    return pivot_of(read_model(path, decryption, weights_folder))


def pivot_of(model: Model) -> Pivot:
    """The pivot of a MindIR model; raises as `lower` does."""
    from .lowering.walk import lower

    lowered = lower(model)
    used = {tensor.name for tensor in lowered.graph.initializer}
    return Pivot(lowered, model.path, {model.location(path): data for path, data in model.memory.items()}, model.folder,
                 tuple(weight.name for weight in model.weights.values() if weight.name not in used), model.files)


def is_onnx(path: str) -> bool:
    """Whether the file's first byte is that of an ONNX model, and it is no FlatBuffers file, which may begin so too.

    What is neither counts as ONNX where its name says so.
    """
    try:
        with open_regular(path) as file:
            head = file.read(8)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error
    named = path.endswith(".onnx") and head[:1] != _MINDIR_FIRST_BYTE
    return (named or head[:1] == _ONNX_FIRST_BYTE) and head[4:] not in FLATBUFFERS
