"""Structure of a model: the fingerprints of its graph, and of its weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ...comm.digest import blake2b
from .source_graph import SourceGraph

_SAMPLED = 512
"""Bytes that are read at each of several places of a weight."""

_PLACES = 6


def graph_fingerprint(graph: SourceGraph) -> str:
    """A text that is the same for models with the same nodes, inputs, outputs and weight shapes."""
    digest = blake2b(digest_size=16)
    inner = graph.model.graph
    for value in (*inner.inputs, *inner.outputs, *inner.initializers.values()):
        digest.update(f"{value.name} {value.dtype} {value.shape}\n".encode())
    for node in graph.nodes:
        digest.update(ir.to_proto(node).SerializeToString(deterministic=True))
    return digest.hexdigest()


def slicing_fingerprint(graph: SourceGraph, plan: str) -> str:
    """A text that tells shards of one slicing from those of another plan, model or set of weights.

    `plan` is the text of the plan file. Of each weight a few places are read.
    """
    digest = blake2b(plan.encode(), digest_size=16)
    for name, value in graph.weights.items():
        tensor = value.const_value
        assert tensor is not None
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        for piece in _pieces(tensor):
            digest.update(piece)
    return digest.hexdigest()


def _pieces(tensor: ir.TensorProtocol) -> Iterator[bytes]:
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes <= _SAMPLED * _PLACES:
        yield repr(tensor.numpy().tolist()).encode()
        return
    data = np.asarray(tensor.numpy()).reshape(-1)
    count = _SAMPLED // max(1, data.itemsize)
    for place in range(_PLACES):
        start = place * (data.size - count) // (_PLACES - 1)
        yield data[start : start + count].tobytes()
