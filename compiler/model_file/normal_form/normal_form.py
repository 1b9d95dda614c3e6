"""Normal form: brings the model of a file to what every reader may take for granted.

All ways to run, slice or convert a model begin here, so that they agree on what it means: ONNX's
own domain has one name, all known domains are imported, no functions are left, each node stands
behind the nodes whose values it takes, and an unknown dimension is open. No external weight is
loaded.
"""

from __future__ import annotations

from onnx import GraphProto, ModelProto

from ....comm.errors import ModelError
from ...onnx_graph.onnx_values import all_nodes, subgraphs
from .domains import import_domains, name_domains
from .node_order import order_nodes
from .passed_values import type_passed_values

_LARGEST_VERSION = 2**31 - 1
_FIRST_OVERRIDABLE = 4
"""The IR version from which an input with an initializer is an input with a default. Before, each
weight was listed as an input.
"""


def normalise(model: ModelProto, path: str) -> None:
    """Bring a model to its normal form, in place; ModelError, which names `path`, where it has
    none.
    """
    if not model.graph.output:
        raise ModelError(
            f"{path}: has no outputs, so there is nothing to compute. Export it again."
        )
    _check_versions(model, path)
    name_domains(model, path)
    if model.functions:
        from .function_calls import expand_calls  # few files have any

        expand_calls(model, path)
    order_nodes(model.graph, path)
    import_domains(model, dict.fromkeys(node.domain for node in all_nodes(model.graph.node)))
    if model.ir_version < _FIRST_OVERRIDABLE:
        _drop_weights_from_inputs(model.graph)
        model.ir_version = _FIRST_OVERRIDABLE  # onnx's own inference goes by it
    type_passed_values(model.graph)
    _open_unknown_dimensions(model.graph)


def _check_versions(model: ModelProto, path: str) -> None:
    of_functions = (one for function in model.functions for one in function.opset_import)
    for one in (*model.opset_import, *of_functions):
        if not 0 <= one.version <= _LARGEST_VERSION:
            raise ModelError(
                f"{path}: imports version {one.version} of the domain '{one.domain}', expected "
                f"0 to {_LARGEST_VERSION}: the file is corrupt. Export or copy it again."
            )


def _drop_weights_from_inputs(graph: GraphProto) -> None:
    weights = {one.name for one in graph.initializer}
    kept = [info for info in graph.input if info.name not in weights]
    if len(kept) < len(graph.input):
        del graph.input[:]
        graph.input.extend(kept)


def _open_unknown_dimensions(graph: GraphProto) -> None:
    """Leave dimensions open that a file states as negative numbers, as some exporters do."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.Clear()
    for node in graph.node:
        for inner in subgraphs(node):
            _open_unknown_dimensions(inner)
