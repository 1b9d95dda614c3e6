"""Domains of operators: ONNX's own by one name, and an import for each domain that nodes use.

Exporters leave out imports that onnxruntime does without, and name ONNX's own domain in two ways:
https://onnx.ai/onnx/repo-docs/IR.html#operator-sets
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence

import onnx
from onnx import ModelProto, NodeProto, OperatorSetIdProto

from ....comm.errors import ModelError
from ...onnx_graph.onnx_values import subgraphs

ONNX = ""
_ALIAS = "ai.onnx"
_ASSUMED = {
    "com.microsoft": 1,
    "com.microsoft.experimental": 1,
    "com.microsoft.nchwc": 1,
    "ai.onnx.training": 1,
    "ai.onnx.preview": 1,
    "ai.onnx.preview.training": 1,
    "org.pytorch.aten": 1,
    "ai.onnx.ml": 5,
}
"""The versions that onnxruntime 1.32 assumes where a file imports no version."""


def name_domains(model: ModelProto, path: str) -> None:
    """Give ONNX's own domain its empty name, in imports, nodes and functions.

    Raises ModelError, which names `path`, for a file without imports.
    """
    if not model.opset_import:
        raise ModelError(
            f"{path}: imports no operator set (opset_import), so that the meaning of its nodes is "
            "open. Export it again, with a version of ONNX's operators."
        )
    _settle_imports(model.opset_import)
    _name_nodes(model.graph.node)
    for function in model.functions:
        function.domain = _named(function.domain)
        _settle_imports(function.opset_import)
        _name_nodes(function.node)


def import_domains(model: ModelProto, domains: Iterable[str]) -> None:
    """Import the version that onnxruntime assumes of each known domain without an import."""
    imported = {one.domain for one in model.opset_import}
    for domain in domains:
        version = onnx.defs.onnx_opset_version() if domain == ONNX else _ASSUMED.get(domain)
        if domain not in imported and version is not None:
            model.opset_import.add(domain=domain, version=version)


def versions(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The version of each imported domain."""
    return {one.domain: one.version for one in imports}


def _settle_imports(imports: MutableSequence[OperatorSetIdProto]) -> None:
    """One import for each domain: of several, the last one counts, as for onnxruntime."""
    found = {_named(one.domain): one.version for one in imports}
    if len(found) < len(imports) or any(one.domain == _ALIAS for one in imports):
        del imports[:]
        imports.extend(
            OperatorSetIdProto(domain=domain, version=version) for domain, version in found.items()
        )


def _name_nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        if node.domain == _ALIAS:
            node.domain = ONNX
        for graph in subgraphs(node):
            _name_nodes(graph.node)


def _named(domain: str) -> str:
    return ONNX if domain == _ALIAS else domain
