"""Export: a torch module as an ONNX model in memory, whose weights stay the module's tensors."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ...comm.errors import ModelError, UsageError
from .optimise import optimise

if TYPE_CHECKING:
    import onnx_ir as ir

_REASON = 300
"""Characters of torch's reason that an error repeats: its reports fill pages."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A module or a captured program, with the inputs and names that it is exported with.

    `arguments` and `keywords` are those of the module's call. `shapes` has the open dimensions, as
    torch.export takes them.
    """

    module: torch.nn.Module | torch.export.ExportedProgram
    arguments: tuple[object, ...]
    keywords: Mapping[str, object]
    shapes: object = None
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None


def export(request: ExportRequest, name: str) -> ir.Model:
    """The ONNX model of a module; errors begin with `name`.

    UsageError where onnxscript is missing or the module is in training mode, ModelError where torch
    cannot export it.
    """
    if getattr(request.module, "training", False):
        raise UsageError(f"{name}: is in training mode, expected inference: call eval() on it.")
    try:
        with _quiet():
            program = torch.onnx.export(
                request.module,
                request.arguments,
                kwargs=dict(request.keywords),
                dynamo=True,
                verbose=False,
                optimize=False,
                dynamic_shapes=request.shapes,
                input_names=request.input_names,
                output_names=request.output_names,
            )
            assert program is not None
            model: ir.Model = program.model
            optimise(model)
    except ImportError as error:
        raise UsageError(
            f"{name}: its export needs a package that is missing ({error}): pip install "
            "'rankmesh[slice,torch]' onnxscript"
        ) from error
    except (torch.onnx.errors.OnnxExporterError, RuntimeError, ValueError) as error:
        raise ModelError(f"{name}: torch cannot export it to ONNX: {_reason(error)}") from error
    _forget_code(model)
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what torch says of its own code and of packages that the module may not need."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """The innermost reason of an error, without the report around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:_REASON] or type(error).__name__


def _forget_code(model: ir.Model) -> None:
    """Remove the exporter's notes: paths and lines of the program are not for the files."""
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values()):
            value.metadata_props.clear()
        for node in graph:
            node.metadata_props.clear()
            node.doc_string = None
            for value in node.outputs:
                value.metadata_props.clear()
