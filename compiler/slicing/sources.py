"""Sources: read what is to be sliced as a graph, from a model file or a Hugging Face folder."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...comm.errors import ModelError, UsageError
from ...comm.host.stamp import Files
from ..mindir.mindir_file import is_encrypted
from ..model_file.model_format import load_model

if TYPE_CHECKING:
    from ..model_file.loaded_model import LoadedModel
    from ..source_graph.source_graph import SourceGraph

_OLDEST = {"onnx_ir": (1, 0), "onnx": (1, 18)}


def read_source(path: str, sizes: Mapping[str, int] | None) -> SourceGraph:
    """The graph of the model at `path`; ModelError where it cannot be sliced.

    `sizes` has the usual sizes of open dimensions, by name.
    """
    from ..right_sizes.shapes import source_graph
    from ..source_graph.source_graph import source_model, uniform_model

    if os.path.isdir(path):
        from .hugging_face import read_folder

        return source_graph(uniform_model(read_folder(path), path), path, sizes)
    return source_graph(source_model(load_whole(path)), path, sizes)


def load_whole(path: str) -> LoadedModel:
    """The plain model at `path`; ModelError where it is encrypted or cannot be read."""
    if is_encrypted(path):
        raise ModelError(
            f"{path}: is encrypted. Its shards would lie on a disk as plain text, which Rankmesh "
            "never writes. Slice the plain model where it may be written."
        )
    return load_model(path)


def source_files(path: str) -> Files:
    """The stamps of all files of the model at `path`; ModelError where there is none to slice."""
    if os.path.isdir(path):
        from .hugging_face import folder_files

        return folder_files(path)
    return load_whole(path).files


def stem_of(path: str) -> str:
    """The name that the shards of the model at `path` begin with."""
    name = os.path.basename(os.path.abspath(path))
    return name if os.path.isdir(path) else os.path.splitext(name)[0].removesuffix("_graph")


def require_packages() -> None:
    """UsageError where a package that slicing needs is missing or too old."""
    for name, oldest in _OLDEST.items():
        package = name.replace("_", "-")
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise UsageError(
                f"slicing needs the package {package}, which cannot be imported ({error}). Install "
                "it with: pip install 'rankmesh[slice]'."
            ) from None
        found = module.__version__.split(".")
        if (int(found[0]), int(found[1])) < oldest:
            raise UsageError(
                f"slicing needs {package} {oldest[0]}.{oldest[1]} or later, and "
                f"{module.__version__} is installed: pip install 'rankmesh[slice]'."
            )


def require_onnxruntime() -> None:
    """UsageError where shards cannot be loaded and proved."""
    try:
        importlib.import_module("onnxruntime")
    except ImportError as error:
        raise UsageError(
            f"shards are proved with onnxruntime, which cannot be imported ({error}). Install it "
            "with: pip install 'rankmesh[slice,cpu]'."
        ) from None
