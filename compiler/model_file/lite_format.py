"""The .ms format: MindSpore Lite's files, read as graphs of primitives and lowered to ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .loaded_model import LoadedModel
from .mindir_format import load_mindir

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption
    from .survey import ModelSurvey

MARKS = (b"MSL0", b"MSL1", b"MSL2")
"""The marks at byte 4 of MindSpore Lite's files, of all ages."""


class LiteFormat:
    """See ModelFormat. Modules for .ms files alone are imported when such a file is loaded."""

    name = "MindSpore Lite"
    suffix = ".ms"

    def recognizes(self, head: bytes) -> bool:
        """Whether the mark of FlatBuffers files of MindSpore Lite is at byte 4."""
        return head[4:] in MARKS

    def load(
        self,
        path: str,
        decryption: Decryption | None,
        weights_folder: str,
        shapes: Sequence[tuple[int, ...]] | None,
        nodes_checked: bool,
    ) -> LoadedModel:
        """See ModelFormat.load. The weights are in the file, whatever `weights_folder` is."""
        from ..lite.lite_file import read_lite

        model = read_lite(path, decryption)
        if shapes is None:
            return load_mindir(model)
        from .resized import mindir_shapes, resize_mindir

        exported = mindir_shapes(model)
        return replace(load_mindir(resize_mindir(model, shapes)), exported=exported)

    def survey(self, path: str, decryption: Decryption | None, weights_folder: str) -> ModelSurvey:
        """See ModelFormat.survey."""
        from ..lite.lite_file import read_lite
        from .survey import survey_mindir

        model = read_lite(path, decryption)
        return replace(survey_mindir(model, lambda: load_mindir(model)), user_info=None)

    def user_info(
        self, path: str, decryption: Decryption | None, weights_folder: str
    ) -> Mapping[str, str]:
        """Nothing: .ms files have no notes of their exporter."""
        return {}
