"""The decoder format: a folder of onnxruntime-genai, read as the graph of one step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...comm.errors import ModelError
from ...comm.host.stamp import Stamp
from ...comm.serving.decoder_files import CONFIG
from .loaded_model import LoadedModel
from .onnx_format import OnnxFormat

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption
    from .survey import ModelSurvey


class DecoderFormat:
    """See ModelFormat. The file is the configuration, which names the decoder's ONNX file."""

    name = "decoder"
    suffix = CONFIG

    def recognizes(self, head: bytes) -> bool:
        """Never: its name tells it from other JSON texts."""
        return False

    def load(
        self,
        path: str,
        decryption: Decryption | None,
        weights_folder: str,
        shapes: Sequence[tuple[int, ...]] | None,
        nodes_checked: bool,
    ) -> LoadedModel:
        """See ModelFormat.load."""
        from ..decoders.genai_config import read_genai_config
        from ..decoders.step_graph import step_graph

        if decryption:
            decryption.refuse_plain(path)
        if shapes is not None:
            raise ModelError(f"{path}: a decoder has no other input shapes than its own.")
        own, config = Stamp.of(path), read_genai_config(path)
        name = config.model.decoder.filename
        file = os.path.join(os.path.dirname(path), name)
        loaded = OnnxFormat().load(file, None, weights_folder, None, nodes_checked)
        files = {**loaded.files, name: loaded.files[""], "": own}
        model = step_graph(loaded.model, config, loaded.path)
        return replace(loaded, model=model, path=path, files=files)

    def survey(self, path: str, decryption: Decryption | None, weights_folder: str) -> ModelSurvey:
        """See ModelFormat.survey."""
        from .survey import survey_onnx

        return survey_onnx(self.load(path, decryption, weights_folder, None, True))

    def user_info(
        self, path: str, decryption: Decryption | None, weights_folder: str
    ) -> Mapping[str, str]:
        """Nothing: a Model shows the notes of MindIR files only."""
        return {}
