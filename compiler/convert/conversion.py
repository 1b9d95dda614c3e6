"""Conversion: one model file, of any format that Rankmesh reads, as a MindIR or a .ms file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...comm.errors import InputError, UsageError
from .settings import ConversionSettings

if TYPE_CHECKING:
    import onnx_ir as ir

    from ..model_file.loaded_model import LoadedModel
    from .graph_conversion import GraphWeight
    from .mindir.file_writer import WeightElements
    from .mindir.graph_builder import GraphBuilder
    from .mindir.segmented_file import FileRange

Progress = Callable[[str, int, int], None]
"""Told of progress: what is done, bytes done, bytes in all."""

SUFFIX, LITE_SUFFIX = ".mindir", ".ms"


def convert_model(settings: ConversionSettings, progress: Progress | None = None) -> Path:
    """Convert a model, and return the file that was written: of a large model, that of its graph.

    The files appear when they are complete. Raises ModelError where the model cannot be read or
    has operators without a counterpart, InputError for shapes that do not fit it.
    """
    from ..model_file.refused_model import refused_by_onnxruntime

    with refused_by_onnxruntime(settings.model):
        return _written(settings, progress)


def _written(settings: ConversionSettings, progress: Progress | None) -> Path:
    from ..onnx_graph.collective_nodes import SLICING
    from ..source_graph.source_graph import located_model
    from .kept_collectives import keep_collectives
    from .layouts import put_channels_last

    loaded = _loaded(settings)
    source = located_model(loaded)
    names = [str(one.name) for one in source.graph.outputs]
    _check_layout(settings)
    put_channels_last(source, settings.last_channels.inputs, settings.last_channels.outputs)
    keep_collectives(source)
    if settings.lite:
        return _as_lite(source, settings, names, progress)
    sliced = {key: text for key, text in source.metadata_props.items() if key == SLICING}
    return _as_mindir(source, settings, names, sliced, progress)


def _check_layout(settings: ConversionSettings) -> None:
    from ..model_file.model_format import LITE, format_of

    last = settings.last_channels
    if (last.inputs or last.outputs) and format_of(settings.model) is LITE:
        raise UsageError(
            f"{settings.model}: is a .ms file, whose images keep their layout: convert the model "
            "that it was made of to have channels last."
        )


def _as_mindir(
    source: ir.Model,
    settings: ConversionSettings,
    names: Sequence[str],
    sliced: Mapping[str, str],
    progress: Progress | None,
) -> Path:
    """The model as MindIR, whose outputs have these names."""
    from importlib.metadata import version

    from ..lowering.ends import OUTPUT_NAMES
    from .mindir.builder import MindirBuilder
    from .mindir.model_files import write_model_files

    builder = MindirBuilder("main")
    weights = [_elements(one) for one in _converted(source, settings, builder, len(names))]
    notes = {
        "source": os.path.basename(settings.model),
        "converter": f"rankmesh {version('rankmesh')}",
        OUTPUT_NAMES: json.dumps(names),
        **sliced,
        **settings.notes,
    }
    model = builder.finished(notes)
    stem = _stem(settings.output, SUFFIX)
    return write_model_files(model, weights, stem, settings.encryption, progress)


def _as_lite(
    source: ir.Model,
    settings: ConversionSettings,
    names: Sequence[str],
    progress: Progress | None,
) -> Path:
    """The model as a .ms file, whose outputs have these names."""
    from .lite.lite_builder import LiteBuilder
    from .lite.lite_files import VERSION, write_lite_file

    if settings.encryption:
        raise UsageError(".ms files cannot be encrypted: convert to MindIR, or without a key.")
    builder = LiteBuilder()
    weights = _converted(source, settings, builder, len(names))
    builder.give_elements([_stored(one) for one in weights])
    builder.name_outputs(names)
    stem = _stem(settings.output, LITE_SUFFIX)
    target = stem.with_name(stem.name + LITE_SUFFIX)
    nbytes = sum(_elements(one).nbytes for one in weights)
    return write_lite_file(builder.records.root(VERSION), target, nbytes, progress)


def _converted(
    source: ir.Model, settings: ConversionSettings, builder: GraphBuilder, results: int
) -> list[GraphWeight]:
    """The parameters of a model whose nodes the builder got."""
    from ..right_sizes.shapes import source_graph
    from ..source_graph.source_graph import made_uniform
    from .expansion.expand import expand
    from .graph_conversion import GraphConversion

    graph = source_graph(made_uniform(source), settings.model)
    while expand(graph):  # what is behind a sequence has no type before it is expanded
        graph = source_graph(made_uniform(graph.model), settings.model)
    conversion = GraphConversion(graph, settings.model, builder, settings.half_weights)
    conversion.run(results)
    return conversion.weights


def _loaded(settings: ConversionSettings) -> LoadedModel:
    """The model with the shapes that the settings give its inputs."""
    from ..model_file.model_format import load_model
    from ..onnx_graph.onnx_values import tensor_type
    from ..resizing.resize_check import check_file

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
    resized = load_model(path, settings.decryption, shapes=shapes)
    check_file(path, settings.decryption, "", resized.exported, shapes)
    return resized


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
    place = _place(tensor, nbytes)
    return WeightElements(weight.value.name, weight.dtype, nbytes, tensor.numpy, place)


def _place(tensor: ir.TensorProtocol, nbytes: int) -> FileRange | None:
    """Where the elements of a weight lie in a file as they are to be stored."""
    import onnx_ir as ir

    from .mindir.segmented_file import FileRange

    if not isinstance(tensor, ir.ExternalTensor) or tensor.nbytes != nbytes:
        return None
    return FileRange(os.fspath(tensor.path), tensor.offset or 0, nbytes)


def _stored(weight: GraphWeight) -> Callable[[], NDArray[Any]]:
    """A reader of the elements of a weight, in the dtype that it is stored in."""
    tensor = weight.value.const_value
    assert tensor is not None
    return lambda: np.asarray(tensor.numpy()).astype(weight.dtype, copy=False)


def _stem(output: str, suffix: str) -> Path:
    return Path(output.removesuffix(suffix))
