"""Opsets of local functions: brings functions of another opset to that of the model."""

from __future__ import annotations

from functools import lru_cache

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, ValueInfoProto, helper, version_converter

from ....comm.errors import ModelError
from ...onnx_graph.onnx_values import all_nodes
from .domains import ONNX, versions


class FunctionOpsets:
    """The imports of a model, and the functions that were compared with them."""

    def __init__(self, model: ModelProto, path: str) -> None:
        self._path = path
        self._imports = versions(model.opset_import)
        for function in model.functions:
            for one in function.opset_import:
                if one.domain not in self._imports:
                    self._imports[one.domain] = one.version
                    model.opset_import.add(domain=one.domain, version=one.version)

    def adapt(self, body: FunctionProto) -> None:
        """Write the nodes of a function, which refer to no attributes, in the model's opsets.

        Nodes whose operators are the same in both opsets stay. Raises ModelError where others are
        not of ONNX's domain, or have no counterpart.
        """
        for domain, version in versions(body.opset_import).items():
            wanted = self._imports[domain]
            changed = [
                node
                for node in all_nodes(body.node)
                if node.domain == domain and not is_same(node.op_type, domain, version, wanted)
            ]
            if changed:
                self._convert(body, changed[0], version, wanted)

    def _convert(self, body: FunctionProto, changed: NodeProto, version: int, wanted: int) -> None:
        why = f"there is no conversion for the domain '{changed.domain}'"
        if changed.domain == ONNX:
            try:
                converted = version_converter.convert_version(_as_model(body, version), wanted)
            except Exception as error:  # RuntimeError and the converter's own kinds
                why = f"ONNX's converter says: {error}"
            else:
                del body.node[:]
                body.node.extend(converted.graph.node)
                return
        raise ModelError(
            f"{self._path}: the local function '{body.name}' is of opset {version}, whose "
            f"{changed.op_type} is another operator than that of opset {wanted}, the model's, and "
            f"{why}. Export the model with one opset for all."
        )


@lru_cache(4096)
def is_same(op_type: str, domain: str, version: int, other: int) -> bool:
    """Whether an operator is the same in two versions of its domain, but for the types it takes.

    False for an operator that only one of them has; True for one that ONNX does not know.
    """
    if version == other:
        return True
    found = [_schema(op_type, domain, one) for one in (version, other)]
    if found == [None, None]:
        return domain != ONNX
    return None not in found and _form(found[0]) == _form(found[1])


def _schema(op_type: str, domain: str, version: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # a version beyond 32 bits, or a name in bytes
        return None


def _form(schema: onnx.defs.OpSchema | None) -> object:
    """The inputs and outputs of an operator, and its attributes with their defaults."""
    assert schema is not None
    values = [(one.name, one.option) for one in (*schema.inputs, *schema.outputs)]
    attributes = {
        name: (one.type, one.required, one.default_value.SerializeToString(deterministic=True))
        for name, one in schema.attributes.items()
    }
    return values, attributes


def _as_model(body: FunctionProto, version: int) -> ModelProto:
    """A function as a model, whose inputs have no types."""
    graph = helper.make_graph(
        body.node,
        body.name,
        [ValueInfoProto(name=name) for name in body.input],
        [ValueInfoProto(name=name) for name in body.output],
    )
    imports = [one for one in body.opset_import if one.domain != ONNX]
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(ONNX, version), *imports], ir_version=10
    )
