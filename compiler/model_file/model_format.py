"""Model formats: the registry of file formats, and the loading of a model file of any of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ...comm.errors import ModelError
from ...comm.host.regular_file import open_regular
from ...comm.serving.decoder_files import CONFIG
from .decoder_format import DecoderFormat
from .lite_format import LiteFormat
from .mindir_format import MindirFormat
from .onnx_format import OnnxFormat

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption
    from .loaded_model import LoadedModel
    from .survey import ModelSurvey

_HEAD = 8
"""Bytes by which a format recognizes its files."""


class ModelFormat(Protocol):
    """A file format of models. A new format is a class with these members, and an entry of FORMATS.

    `name` is shown to users; `suffix` ends the usual names of files of the format.
    """

    name: str
    suffix: str

    def recognizes(self, head: bytes) -> bool:
        """Whether a file that begins with these 8 bytes is of the format."""

    def load(
        self,
        path: str,
        decryption: Decryption | None,
        weights_folder: str,
        shapes: Sequence[tuple[int, ...]] | None,
        nodes_checked: bool,
    ) -> LoadedModel:
        """Read the file at `path`; see load_model. Raises ModelError."""

    def survey(self, path: str, decryption: Decryption | None, weights_folder: str) -> ModelSurvey:
        """The contents of the file at `path`, for `rankmesh inspect`. Raises ModelError."""

    def user_info(
        self, path: str, decryption: Decryption | None, weights_folder: str
    ) -> Mapping[str, str]:
        """The notes of the exporter in the file, by key. Raises ModelError."""


MINDIR = MindirFormat()
ONNX = OnnxFormat()
LITE = LiteFormat()
DECODER = DecoderFormat()
FORMATS: tuple[ModelFormat, ...] = (LITE, ONNX, DECODER, MINDIR)


def format_of(path: str) -> ModelFormat:
    """The format of a file, by its content, else by its suffix, else MindIR.

    Neither content nor suffix need tell that a file is an encrypted MindIR. Raises ModelError where
    the file cannot be read, or is of another kind.
    """
    head = _head(path)
    _refuse_others(path)
    by_content = [one for one in FORMATS if one.recognizes(head)]
    by_suffix = [one for one in FORMATS if path.endswith(one.suffix)]
    return [*by_content, *by_suffix, MINDIR][0]


def _head(path: str) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(_HEAD)
    except OSError as error:
        _refuse_others(path)
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error


def _refuse_others(path: str) -> None:
    """ModelError, with the remedy, for what is plainly no model that is read."""
    from ...comm.job.other_files import not_a_model

    wrong = None if os.path.basename(path) == CONFIG else not_a_model(path)
    if wrong:
        raise ModelError(wrong)


def load_model(
    path: str,
    decryption: Decryption | None = None,
    weights_folder: str = "",
    shapes: Sequence[tuple[int, ...]] | None = None,
    nodes_checked: bool = True,
) -> LoadedModel:
    """Load a model file of any format; ModelError names the file and the reason.

    `decryption` opens encrypted MindIR; with it, other files are refused unless it allows them.
    External weights lie in `weights_folder`, by default in the folder of `path`. With `shapes`, in
    the order of the inputs, the model is loaded for other input shapes than it was exported for.
    Without `nodes_checked`, onnxruntime is to check that nodes are as their operators want them.
    """
    return format_of(path).load(path, decryption, weights_folder, shapes, nodes_checked)
