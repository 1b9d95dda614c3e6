"""Resize check: refuses input shapes that a model cannot have, and names the constant.

An exporter writes sizes of its example into the graph: a Reshape to [4, 16, -1] holds a batch of 4.
With another batch such a model fails late, or computes something else. So the shapes of all values
are computed as exported and as asked for, and each node is looked at with both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir
from onnx import helper

from ...comm.errors import ModelError
from ..model_file.loaded_model import LoadedModel
from ..model_file.model_format import load_model
from ..onnx_graph.constant_folding import RANDOM
from ..onnx_graph.external import external_array, lies_in
from ..source_graph.shape_run import ShapeRun
from ..source_graph.source_graph import located_model, made_uniform
from .axis_factors import AxisFactors
from .failures import failure
from .misfits import misfit
from .resized_node import ResizedNode
from .trial_sizes import Shape, nearest, opened, trials

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption

Load = Callable[[Sequence[Shape]], LoadedModel]
_SMALL = 64
"""Elements of the largest constant that shapes may depend on."""
_FEW = 8


def check_file(
    path: str,
    decryption: Decryption | None,
    folder: str,
    exported: Sequence[Shape | None],
    asked: Sequence[Shape],
) -> None:
    """See check_resize, of the model in a file, whose weights lie in `folder`."""
    check_resize(lambda shapes: load_model(path, decryption, folder, shapes), exported, asked)


def check_resize(load: Load, exported: Sequence[Shape | None], asked: Sequence[Shape]) -> None:
    """Raise ModelError where the model cannot have the input shapes `asked`, -1 for any size.

    `exported` are those of the file. `load` loads it for others, in which -1 is open.
    """
    shapes = opened(exported, asked)
    if all(-1 not in shape for shape in shapes):
        return
    try:
        loaded = load(shapes)
    except ModelError:  # a primitive needs the size; the load for the asked shapes tells
        return
    model = made_uniform(located_model(_readable(loaded), defaults_stay=True))
    required = len(model.graph.inputs)  # those with a default come behind
    exported, asked = exported[:required], asked[:required]
    sure, reasons = _is_sure(model, exported, asked), []
    for before, after in trials(exported, asked):
        reason = _reason(model, before, after, sure)
        if not reason:
            return
        reasons.append(reason)
    raise _refusal(model, loaded.path, exported, asked, reasons[0])


def _readable(loaded: LoadedModel) -> LoadedModel:
    """The model with its small weights that lie in memory alone: shapes may depend on them."""
    for tensor in loaded.model.graph.initializer:
        if lies_in(loaded.memory, tensor):
            array = external_array(tensor, loaded.folder, loaded.memory)
            if array.size <= _SMALL:
                kept = helper.make_tensor(
                    tensor.name, tensor.data_type, tensor.dims, array.tobytes(), raw=True
                )
                tensor.CopyFrom(kept)
    return loaded


def _reason(model: ir.Model, before: Sequence[Shape], after: Sequence[Shape], sure: bool) -> str:
    """Why the model cannot have the shapes `after`; "" where it can.

    With `sure` a node that fails with both shapes counts: then the file left sizes open, so that
    `before` has asked ones, too.
    """
    exported, asked = (ShapeRun(model, _sizes(model, shapes)) for shapes in (before, after))
    constants, factors = _constants(model), AxisFactors()
    failed = {id(node) for node in asked.failed}
    if not sure:
        failed -= {id(node) for node in exported.failed}
    for one in model.graph.all_nodes():
        node = ResizedNode(one, exported, asked, constants)
        reason = misfit(node, factors, sure)
        if not reason and id(one) in failed:
            reason = failure(node)
        if reason:
            return reason
        factors.add(node)
    return ""


def _is_sure(model: ir.Model, exported: Sequence[Shape | None], asked: Sequence[Shape]) -> bool:
    """Whether all sizes are known, some of which the file leaves open, and all operators are
    ONNX's own, whose inference is exact.
    """
    return (
        all(-1 not in shape for shape in asked)
        and any(shape is None or -1 in shape for shape in exported)
        and all(node.domain in ("", "ai.onnx") for node in model.graph.all_nodes())
    )


def _sizes(model: ir.Model, shapes: Sequence[Shape]) -> Mapping[str, int]:
    """The sizes of the open dimensions, by the names that ShapeRun gives them."""
    inputs = zip(model.graph.inputs, shapes, strict=True)
    return {
        f"{value.name}.{axis}": size for value, shape in inputs for axis, size in enumerate(shape)
    }


def _constants(model: ir.Model) -> frozenset[str]:
    """The values that no input of the model decides."""
    found = set(model.graph.initializers)
    for node in model.graph.all_nodes():
        known = all(value is None or value.name in found for value in node.inputs)
        if known and node.op_type not in RANDOM and not _has_graphs(node):
            found.update(str(value.name) for value in node.outputs)
    return frozenset(found)


def _has_graphs(node: ir.Node) -> bool:
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return any(one.type in graphs for one in node.attributes.values())


def _refusal(
    model: ir.Model, path: str, exported: Sequence[Shape | None], asked: Sequence[Shape], why: str
) -> ModelError:
    """The error; it shows the inputs that were to change, and the nearest shapes that fit."""
    names = [str(value.name) for value in model.graph.inputs]
    others = nearest(exported, asked, _held(model))
    fits = next((one for one in others if _fits(model, exported, one)), None)
    remedy = f"It takes {_shown(names, fits, asked)}" if fits else "Give others"
    return ModelError(
        f"{path}: it cannot take {_shown(names, asked, exported)}: {why}. {remedy}, or export the "
        "model with these dimensions open."
    )


def _held(model: ir.Model) -> list[int]:
    """The sizes in constants that shapes are taken from, a few of them."""
    found: dict[int, None] = {}
    for node in model.graph.all_nodes():
        target = node.inputs[1] if node.op_type in ("Expand", "Reshape") else None
        value = target.const_value if target is not None else None
        if value is not None and value.size <= _SMALL:
            found.update((int(one), None) for one in value.numpy().reshape(-1) if one > 0)
    return list(found)[:_FEW]


def _fits(model: ir.Model, exported: Sequence[Shape | None], asked: Sequence[Shape]) -> bool:
    sure = _is_sure(model, exported, asked)
    return any(not _reason(model, *pair, sure) for pair in trials(exported, asked))


def _shown(names: Sequence[str], shapes: Sequence[Shape], others: Sequence[Shape | None]) -> str:
    """The inputs whose shapes differ from the others."""
    trio = zip(names, shapes, others, strict=True)
    return ", ".join(f"'{name}' {list(one)}" for name, one, other in trio if one != other)
