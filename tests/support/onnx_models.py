"""ONNX models in a few words: any types, any nodes, collectives of the domain `rankmesh`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    save,
)
from shards import OPSETS

from rankmesh.compiler.element_types.dtypes import to_onnx
from rankmesh.compiler.model_file.loaded_model import LoadedModel

BF16 = np.dtype(ml_dtypes.bfloat16)
Shape = Sequence[int | str | None] | None
Types = Mapping[str, Shape | tuple[object, Shape]] | None


def graph(
    nodes: Sequence[NodeProto],
    inputs: Types = None,
    outputs: Types = None,
    known: Types = None,
    constants: Mapping[str, np.ndarray | TensorProto] | None = None,
) -> GraphProto:
    """A graph; types are {name: shape} for float32 or {name: (dtype, shape)}; `known` is its
    value_info.
    """
    tensors = [
        array if isinstance(array, TensorProto) else numpy_helper.from_array(array, name)
        for name, array in (constants or {}).items()
    ]
    return helper.make_graph(
        nodes,
        "graph",
        list(_infos(inputs)),
        list(_infos(outputs)),
        tensors,
        value_info=list(_infos(known)),
    )


def model(
    nodes: Sequence[NodeProto],
    inputs: Types = None,
    outputs: Types = None,
    known: Types = None,
    constants: Mapping[str, np.ndarray | TensorProto] | None = None,
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    """A model of opset 21."""
    opsets = [
        *OPSETS,
        *(helper.make_opsetid(name, 1) for name in sorted({f.domain for f in functions})),
    ]
    return helper.make_model(
        graph(nodes, inputs, outputs, known, constants),
        opset_imports=opsets,
        ir_version=10,
        functions=functions,
    )


def loaded(*arguments: object, **more: object) -> LoadedModel:
    """What `model` makes, as if read from m.onnx."""
    return LoadedModel(model(*arguments, **more), "m.onnx")  # type: ignore[arg-type]


def collective(kind: str, inputs: str, outputs: str, **attributes: object) -> NodeProto:
    """A collective; names are separated by spaces. It is called `kind` of its first output or
    input.
    """
    name = f"{kind} {(outputs or inputs).split(' ')[0]}"
    return helper.make_node(
        kind, inputs.split(), outputs.split(), name=name, domain="rankmesh", **attributes
    )


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> NodeProto:
    """A node of the default domain; names are separated by spaces."""
    return helper.make_node(
        op_type, inputs.split(), outputs.split(), name=f"{op_type} {outputs}", **attributes
    )


def two_layers(folder: Path) -> Path:
    """The file of a small network that two ranks can share."""
    weights = np.arange(64, dtype=np.float32).reshape(8, 8)
    nodes = [node("MatMul", "x v", "h"), node("Relu", "h", "r"), node("MatMul", "r w", "y")]
    made = model(nodes, {"x": [2, 8]}, {"y": [2, 8]}, constants={"v": weights, "w": weights})
    save(made, str(folder / "layers.onnx"))
    return folder / "layers.onnx"


def _infos(types: Types) -> Iterable[ValueInfoProto]:
    for name, kind in (types or {}).items():
        dtype, shape = kind if isinstance(kind, tuple) else (np.float32, kind)
        code = dtype if isinstance(dtype, int) else to_onnx(np.dtype(dtype))  # type: ignore[call-overload]
        yield helper.make_tensor_value_info(name, code, shape)  # type: ignore[arg-type]
