"""The ONNX format: its files, read with their weights left in place and their tensors checked.

The weights of a file stay there, mapped, as if it were a file of external data of its own.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from ...comm.errors import ModelError
from ...comm.host.regular_file import open_regular
from ...comm.host.stamp import Stamp
from ..element_types import dtypes
from ..mindir.wire import INITIALIZER, cut_weights
from ..onnx_graph.external import set_entries
from ..onnx_graph.onnx_values import elements
from ..onnx_graph.tensorrt_collectives import from_tensorrt
from ..onnx_graph.value_kinds import refuse_other_kinds
from .lite_format import MARKS
from .loaded_model import LoadedModel
from .node_attributes import check_attributes
from .normal_form.normal_form import normalise
from .user_tensors import UserTensors

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption
    from .survey import ModelSurvey

_LEAST = 4096
"""Bytes of the smallest weights that stay in the file. Smaller ones, such as shapes, are needed in
memory.
"""


class OnnxFormat:
    """See ModelFormat."""

    name = "ONNX"
    suffix = ".onnx"

    def recognizes(self, head: bytes) -> bool:
        """Whether field 1 of a protobuf message is a number, as an ONNX model's version.

        FlatBuffers files may begin so too.
        """
        return head[:1] == b"\x08" and head[4:] not in MARKS

    def load(
        self,
        path: str,
        decryption: Decryption | None,
        weights_folder: str,
        shapes: Sequence[tuple[int, ...]] | None,
        nodes_checked: bool,
    ) -> LoadedModel:
        """See ModelFormat.load."""
        if decryption:
            decryption.refuse_plain(path)
        loaded = load_onnx(path, weights_folder, nodes_checked)
        if shapes is not None:
            from .resized import resize_onnx

            exported = resize_onnx(loaded.model.graph, shapes)
            loaded = replace(loaded, exported=exported)
        return loaded

    def survey(self, path: str, decryption: Decryption | None, weights_folder: str) -> ModelSurvey:
        """See ModelFormat.survey."""
        from .survey import survey_onnx

        return survey_onnx(self.load(path, decryption, weights_folder, None, True))

    def user_info(
        self, path: str, decryption: Decryption | None, weights_folder: str
    ) -> Mapping[str, str]:
        """Nothing: a Model shows the notes of MindIR files only."""
        return {}


def load_onnx(
    path: str, weights_folder: str, nodes_checked: bool, texts: bool = False
) -> LoadedModel:
    """The model in the file at `path` in its normal form. Raises ModelError.

    With `texts` it may take and give texts, too.
    """
    own = Stamp.of(path)
    loaded = LoadedModel(read_onnx(path, not weights_folder), path, data_folder=weights_folder)
    tensors = UserTensors(path, weights_folder)
    try:
        tensors.settle(loaded.model)
        normalise(loaded.model, path)
        check_attributes(loaded.model, path)
        if nodes_checked:
            from .node_signatures import check_signatures  # onnx's checker is not for every rank

            check_signatures(loaded.model, path)
        from_tensorrt(loaded.model, path)
        refuse_other_kinds(loaded.model, path, texts)
    except UnicodeDecodeError as error:  # protobuf decodes names on access
        raise ModelError(
            f"{path}: corrupt: a name is not UTF-8 text ({error}). Export it again."
        ) from error
    return replace(loaded, files={"": own, **tensors.files})


def read_onnx(path: str, in_place: bool) -> ModelProto:
    """Read the model in the file at `path`; ModelError where it has none.

    With `in_place`, weights of 4 KiB and more become external data in the file itself: neither
    copied nor held.
    """
    try:
        with open_regular(path) as file:
            stays = in_place and os.fstat(file.fileno()).st_size > 0
            model = _mapped(path, file.fileno()) if stays else ModelProto.FromString(file.read())
    except (DecodeError, ValueError) as error:
        raise ModelError(
            f"{path}: not a readable ONNX file: {error}. Export or copy it again."
        ) from error
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path}: not a readable ONNX file: it holds no graph.")
    return model


def _mapped(path: str, fd: int) -> ModelProto:
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as buffer:
        cut = cut_weights(buffer, INITIALIZER, _LEAST)
        model = ModelProto.FromString(cut.message)
        for tensor, place in zip(model.graph.initializer, cut.weights, strict=True):
            if place and _fits(tensor, place[1]):
                tensor.data_location = TensorProto.EXTERNAL
                offset, length = place
                set_entries(
                    tensor,
                    {"location": os.path.basename(path), "offset": offset, "length": length},
                )
            elif place:
                tensor.raw_data = bytes(buffer[place[0] : place[0] + place[1]])
    return model


def _fits(tensor: TensorProto, size: int) -> bool:
    """Whether `size` bytes are the elements of a tensor, one after the other.

    False for packed types, and where the file is wrong.
    """
    if tensor.data_location == TensorProto.EXTERNAL:
        return False
    try:
        return size == elements(tensor.dims) * dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:
        return False
