"""Source graphs: the model that is sliced, made uniform, with the dimensions of its values.

Uniform means: functions are inlined, constants are initializers, no initializer is an input, and
every node and value has a name of its own.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import Sequential
from onnx_ir.passes import common as passes

from ...comm.errors import ModelError
from ..model_file.loaded_model import LoadedModel
from ..onnx_graph.constant_folding import RANDOM
from ..onnx_graph.optional_inputs import optional_inputs
from ..onnx_graph.state_notes import read_states
from .annotations import Annotations, take_annotations
from .dims import Dims
from .embeddings import EmbeddingExpansion
from .identities import IdentityRemoval
from .opsets import modern
from .own_names import OwnNames

DEFAULTS = "defaults"
"""The key of a model's `meta` for the defaults of its optional inputs, by name."""

_LATEST_IR = 11
"""The IR version of shards: onnxruntime 1.23 reads no later one."""


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """A model as the planner sees it.

    `dims` has the dimensions of every value whose shape could be computed, by name; `constants` the
    value of small tensors that are constants, or depend on the shapes alone; `sizes` the usual size
    of each open dimension, `size_choices` those that a proof tries; `annotations` what the model
    says of its nodes' placements; `right_sizes` has a line for each open dimension that has only
    one right size.
    """

    model: ir.Model
    dims: Mapping[str, Dims]
    choices: int = 1
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    size_choices: Sequence[Mapping[str, int]] = ({},)
    annotations: Annotations = field(default_factory=dict)
    right_sizes: Sequence[str] = ()

    @property
    def nodes(self) -> Sequence[ir.Node]:
        """The nodes of the main graph, in topological order."""
        return list(self.model.graph)

    @property
    def given(self) -> Sequence[ir.Value]:
        """The outputs that are given out whole."""
        states = self.states
        return [value for value in self.model.graph.outputs if value.name not in states]

    @property
    def states(self) -> Mapping[str, str]:
        """By the name of an output that stays where its rank computes it: the input to which it is
        given at the next run, "" for none.
        """
        return read_states(self.model.metadata_props)

    @property
    def weights(self) -> Mapping[str, ir.Value]:
        """The initializers of the main graph, by name."""
        return self.model.graph.initializers


def source_model(loaded: LoadedModel) -> ir.Model:
    """The uniform model of a loaded file; ModelError where it cannot be sliced."""
    return uniform_model(located_model(loaded), loaded.path)


def located_model(loaded: LoadedModel, defaults_stay: bool = False) -> ir.Model:
    """The model of a loaded file as it is, with the whole paths of its weights.

    Optional inputs of floating point become inputs like others, unless their `defaults_stay`.
    """
    model = ir.from_proto(modern(loaded.model, loaded.path))
    for value in _external(model):
        value.const_value = _located(value.const_value, loaded.folder)
    if not defaults_stay:
        _open_defaults(model, optional_inputs(loaded.model))
    return model


def _open_defaults(model: ir.Model, optional: Collection[str]) -> None:
    """Make plain inputs of these, behind the others, and note their defaults.

    Integers stay weights: they are shapes and axes, which are to be known.
    """
    defaults = model.meta[DEFAULTS] = dict[str, ir.TensorProtocol]()
    for value in list(model.graph.inputs):
        tensor = value.const_value if value.name in optional else None
        if tensor is not None and ir.DataType(tensor.dtype).is_floating_point():
            defaults[str(value.name)] = tensor
            del model.graph.initializers[str(value.name)]
            value.const_value = None
            model.graph.inputs.remove(value)
            model.graph.inputs.append(value)


def uniform_model(model: ir.Model, path: str) -> ir.Model:
    """A model made uniform; ModelError, which names `path`, where it cannot be sliced."""
    _refuse_states(model, path)
    take_annotations(model, path)
    found = made_uniform(model)
    _refuse(found, path)
    return found


def made_uniform(model: ir.Model) -> ir.Model:
    """A model made uniform, whether or not it can be sliced."""
    uniform = Sequential(
        passes.InlinePass(),
        EmbeddingExpansion(),
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        passes.LiftSubgraphInitializersToMainGraphPass(),
        passes.RemoveInitializersFromInputsPass(),
        IdentityRemoval(),
        passes.RemoveUnusedNodesPass(),
        passes.TopologicalSortPass(),
        passes.NameFixPass(),
        OwnNames(),
    )
    found = uniform(model).model
    found.meta[DEFAULTS] = model.meta.get(DEFAULTS, {})
    found.ir_version = min(found.ir_version or _LATEST_IR, _LATEST_IR)
    return found


def _external(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value


def _located(tensor: ir.TensorProtocol | None, folder: str) -> ir.ExternalTensor:
    """A tensor with the whole path of its file.

    The file was checked when the model was loaded. onnx-ir would check it again, and refuse files
    with several hard links, or a model that is a symbolic link, as downloaded ones are.
    """
    assert isinstance(tensor, ir.ExternalTensor)
    return ir.ExternalTensor(
        os.path.join(folder, tensor.location),
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=tensor.shape,
        name=str(tensor.name),
        doc_string=tensor.doc_string,
    )


def _refuse_states(model: ir.Model, path: str) -> None:
    """Raise ModelError where a value lasts from request to request, which shards would forget."""
    for node in model.graph.all_nodes():
        if (node.domain, node.op_type) == ("rankmesh", "Assign"):
            raise ModelError(
                f"{path}: assigns to the parameter '{attribute(node, 'state')}', whose value lasts "
                "from one request to the next; such models cannot be sliced. Export the model "
                "with this value as an input and an output, as those of a cache."
            )


def _refuse(model: ir.Model, path: str) -> None:
    """Raise ModelError for nodes that slices would change the meaning of."""
    name = os.path.basename(path)
    for node in model.graph.all_nodes():
        if node.domain == "rankmesh":
            raise ModelError(
                f"{path}: node {node.name} ({node.op_type}) is a collective: the model is sliced "
                f"already. Run it: rankmesh run {name}"
            )
        if node.op_type in RANDOM or _drops(node):
            raise ModelError(
                f"{path}: node {node.name} ({node.op_type}) draws random numbers: the ranks would "
                "draw different ones. Export the model for inference, or pass the numbers in."
            )


def _drops(node: ir.Node) -> bool:
    """Whether a Dropout is in training mode."""
    if node.op_type != "Dropout" or len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    mode = node.inputs[2].const_value
    return mode is None or bool(mode.numpy().any())


def attribute(node: ir.Node, name: str, default: object = None) -> object:
    """The value of an attribute of a node; `default` where it is missing."""
    found = node.attributes.get(name)
    return default if found is None else found.value


def operator(node: ir.Node) -> str:
    """The name of a node's operator, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
