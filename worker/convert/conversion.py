"""Conversion: one model file, of any format that Rankmesh reads, as a MindIR file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...comm.errors import InputError
from .settings import ConversionSettings

if TYPE_CHECKING:
    from ..model_file.loaded_model import LoadedModel
    from .graph_conversion import GraphWeight
    from .mindir.file_writer import WeightElements

Progress = Callable[[str, int, int], None]
"""Told of progress: what is done, bytes done, bytes in all."""

SUFFIX = ".mindir"


def convert_model(settings: ConversionSettings, progress: Progress | None = None) -> Path:
    """Convert a model, and return the file that was written: of a large model, that of its graph.

    The files appear when they are complete. Raises ModelError where the model cannot be read or
    has operators without a counterpart, InputError for shapes that do not fit it.
    """
    from importlib.metadata import version

    from ..lowering.ends import OUTPUT_NAMES
    from ..onnx_graph.collective_nodes import SLICING
    from ..slicing.graph.shapes import source_graph
    from ..slicing.graph.source_graph import located_model, made_uniform
    from .graph_conversion import GraphConversion
    from .kept_collectives import keep_collectives
    from .mindir.model_files import write_model_files

    loaded = _loaded(settings)
    source = located_model(loaded)
    names = [str(one.name) for one in source.graph.outputs]
    keep_collectives(source)
    graph = source_graph(made_uniform(source), settings.model)
    conversion = GraphConversion(graph, settings.model, settings.half_weights)
    conversion.run(len(names))
    notes = {
        "source": os.path.basename(settings.model),
        "converter": f"rankmesh {version('rankmesh')}",
        OUTPUT_NAMES: json.dumps(names),
        **{key: text for key, text in source.metadata_props.items() if key == SLICING},
        **settings.notes,
    }
    model = conversion.builder.finished(notes)
    weights = [_elements(value) for value in conversion.weights]
    return write_model_files(model, weights, _stem(settings.output), settings.encryption, progress)


def _loaded(settings: ConversionSettings) -> LoadedModel:
    """The model with the shapes that the settings give its inputs."""
    from ..model_file.model_format import load_model
    from ..onnx_graph.onnx_values import tensor_type

    path = settings.model
    loaded = load_model(path, settings.decryption)
    if not settings.shapes:
        return loaded
    graph = loaded.model.graph
    weights = {one.name for one in graph.initializer}
    inputs = {one.name: tensor_type(one) for one in graph.input if one.name not in weights}
    unknown = sorted(set(settings.shapes) - set(inputs))
    if unknown:
        raise InputError(
            f"{path}: has no input '{unknown[0]}'; it has {', '.join(inputs) or 'none'}."
        )
    shapes = [
        settings.shapes.get(name, () if kind is None else kind.shape or ())
        for name, kind in inputs.items()
    ]
    _check_ranks(path, inputs, shapes)
    return load_model(path, settings.decryption, shapes=shapes)


def _check_ranks(path: str, inputs: Mapping[str, object], shapes: Sequence[Sequence[int]]) -> None:
    """InputError for a shape with more or fewer sizes than the input has; `timestep:1` stands for
    a number, too.
    """
    for (name, kind), shape in zip(inputs.items(), shapes, strict=True):
        own = getattr(kind, "shape", None)
        if own is not None and len(own) != len(shape):
            raise InputError(
                f"{path}: the input '{name}' has {len(own)} dimensions, and the shape "
                f"{list(shape)} has {len(shape)}."
            )


def _elements(weight: GraphWeight) -> WeightElements:
    from .mindir.file_writer import WeightElements

    tensor = weight.value.const_value
    assert tensor is not None and weight.value.name is not None
    nbytes = tensor.size * weight.dtype.itemsize
    return WeightElements(weight.value.name, weight.dtype, nbytes, tensor.numpy)


def _stem(output: str) -> Path:
    return Path(output.removesuffix(SUFFIX))
