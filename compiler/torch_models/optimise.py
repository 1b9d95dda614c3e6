"""Optimisation of exported models: folds constants, and keeps all weights under their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...comm.serving.weight_slices import ORDER

if TYPE_CHECKING:
    import onnx_ir as ir


def optimise(model: ir.Model) -> None:
    """Fold constants and simplify a model in place.

    torch's exporter would fold weights too, and take weights of the same numbers for one. Then no
    update could name them. So they are inputs meanwhile. ImportError where onnxscript is missing.
    """
    from onnxscript import optimizer

    graph, weights = model.graph, {}
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is not None and tensor.dtype.is_floating_point() and tensor.size > 1:
            weights[name] = tensor
            del graph.initializers[name]
            value.const_value = None
            graph.inputs.append(value)
    optimizer.optimize(model)
    for value in [one for one in graph.inputs if one.name in weights]:
        graph.inputs.remove(value)
        value.const_value = weights[str(value.name)]
        if value.uses() or value.is_graph_output():
            graph.register_initializer(value)
            _turn(value)


def _turn(value: ir.Value) -> None:
    """Transpose a weight itself, where nothing else uses it; its tensor notes the order of axes."""
    import onnx_ir as ir

    uses, tensor = value.uses(), value.const_value
    if len(uses) != 1 or value.is_graph_output() or tensor is None:
        return
    (use,) = uses
    node = use.node
    if (node.domain, node.op_type) != ("", "Transpose") or node.outputs[0].is_graph_output():
        return
    perm = node.attributes.get("perm")
    order = tuple(perm.as_ints() if perm is not None else reversed(range(len(tensor.shape))))
    turned = ir.Tensor(tensor.numpy().transpose(order), dtype=tensor.dtype, name=value.name)
    turned.meta[ORDER] = order
    value.const_value, value.shape = turned, ir.Shape(turned.shape)
    node.outputs[0].replace_all_uses_with(value)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
