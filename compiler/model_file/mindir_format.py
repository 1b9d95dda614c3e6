"""The MindIR format: its files, read and lowered to ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..onnx_graph.collective_nodes import SLICING
from .loaded_model import LoadedModel

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption
    from ..mindir.graph import MindirModel
    from .survey import ModelSurvey


class MindirFormat:
    """See ModelFormat. Modules for MindIR alone are imported when such a file is loaded."""

    name = "MindIR"
    suffix = ".mindir"

    def recognizes(self, head: bytes) -> bool:
        """Whether field 1 of a protobuf message is a text, as a MindIR's version."""
        return head[:1] == b"\x0a"

    def load(
        self,
        path: str,
        decryption: Decryption | None,
        weights_folder: str,
        shapes: Sequence[tuple[int, ...]] | None,
        nodes_checked: bool,
    ) -> LoadedModel:
        """See ModelFormat.load."""
        from ..mindir.reader import read_model

        model = read_model(path, decryption, weights_folder)
        if shapes is None:
            return load_mindir(model)
        from .resized import mindir_shapes, resize_mindir

        exported = mindir_shapes(model)
        return replace(load_mindir(resize_mindir(model, shapes)), exported=exported)

    def survey(self, path: str, decryption: Decryption | None, weights_folder: str) -> ModelSurvey:
        """See ModelFormat.survey."""
        from ..mindir.reader import read_model
        from .survey import survey_mindir

        model = read_model(path, decryption, weights_folder)
        return survey_mindir(model, lambda: load_mindir(model))

    def user_info(
        self, path: str, decryption: Decryption | None, weights_folder: str
    ) -> Mapping[str, str]:
        """See ModelFormat.user_info."""
        from ..mindir.reader import read_model

        return read_model(path, decryption, weights_folder).user_info


def load_mindir(model: MindirModel) -> LoadedModel:
    """Lower a MindIR graph to ONNX; raises as lower_mindir does."""
    from ..lowering.lower_mindir import lower_mindir

    lowered = lower_mindir(model)
    if SLICING in model.user_info:
        lowered.metadata_props.add(key=SLICING, value=model.user_info[SLICING])
    used = {tensor.name for tensor in lowered.graph.initializer}
    return LoadedModel(
        lowered,
        model.path,
        {model.location(path): data for path, data in model.memory.items()},
        model.folder,
        tuple(weight.name for weight in model.weights.values() if weight.name not in used),
        model.files,
    )
