"""Loaded models: one ONNX model per file, whose collectives are nodes of the domain `rankmesh`.

Between the file of a shard and the plan: every file format is read as this one form, and
worker/partition cuts it into steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import ModelProto

from ...comm.arrays import Shape
from ...comm.host.stamp import Files
from ..mindir.paths import base_folder


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An ONNX model, and the folder inside which its external initializers lie.

    Initializers of encrypted files lie in `memory`, by location: plain text, which must not be
    written to any disk. `unused` names the parameters of a MindIR that none of its nodes takes.
    `files` has the stamps of all files that were read. `exported` are the shapes that the file
    states for the inputs, where it was loaded for others.
    """

    model: ModelProto
    path: str
    memory: Mapping[str, memoryview] = field(default_factory=dict)
    data_folder: str = ""
    unused: tuple[str, ...] = ()
    files: Files = field(default_factory=dict)
    exported: tuple[Shape | None, ...] = ()

    @property
    def folder(self) -> str:
        """The absolute folder of the external initializers; by default that of all its files."""
        return self.data_folder or base_folder(self.path)
