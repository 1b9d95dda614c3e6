"""Torch modules: sliced from memory, without a file of the whole model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ...comm.errors import UsageError
from ..torch_models.export import ExportRequest, export
from .slicer import PlanGoal, SlicingReport, plan_graph, slice_model
from .sources import require_packages


def slice(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: torch.Tensor | Sequence[object] | Mapping[str, object],
    ranks: int,
    output: str | None = None,
    dynamic_shapes: object = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    name: str | None = None,
    memory: int | None = None,
    stages: int = 1,
    sizes: Mapping[str, int] | None = None,
    verify: str = "blocks",
    force: bool = False,
    collectives: str = "rankmesh",
) -> SlicingReport:
    """Export a module, slice it for `ranks` ranks, and write the shards into the folder `output`.

    `example_inputs` is a tensor, a sequence of arguments, or a mapping of keyword arguments.
    `dynamic_shapes` names open dimensions as torch.onnx.export does: `{"x": {0: "batch"}}`. An
    ExportedProgram has inputs and dimensions of its own. Shards begin with `name`, by default that
    of the module's class, and lie in `NAME_shards`. For the rest see plan_slices and slice_model.
    """
    require_packages()
    goal = PlanGoal(ranks, memory, stages, sizes or {})
    from ..right_sizes.shapes import source_graph
    from ..source_graph.source_graph import uniform_model

    captured = isinstance(module, torch.export.ExportedProgram)
    title = name or ("model" if captured else type(module).__name__)
    arguments, keywords = _call(example_inputs, captured)
    if captured:
        _require_no_shapes(dynamic_shapes, title)
    request = ExportRequest(module, arguments, keywords, dynamic_shapes, input_names, output_names)
    model = export(request, title)
    graph = source_graph(uniform_model(model, title), title, sizes)
    plan = plan_graph(graph, title, goal)
    folder = output or f"{title}_shards"
    return slice_model(title, plan, folder, verify, force, collectives=collectives)


def _call(
    inputs: torch.Tensor | Sequence[object] | Mapping[str, object], captured: bool
) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """The arguments and the keyword arguments of the module's call."""
    if captured:
        return (), {}
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), inputs
    return tuple(inputs), {}


def _require_no_shapes(shapes: object, title: str) -> None:
    if shapes is not None:
        raise UsageError(
            f"{title}: an ExportedProgram has its open dimensions: leave dynamic_shapes out, and "
            "give them to torch.export.export."
        )
