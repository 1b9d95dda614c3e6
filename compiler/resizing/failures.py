"""Failures: tell why a node takes no such shapes, and which constant stands against them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from .misfits import fixed, shown
from .resized_node import ResizedNode

_FAR = 64
"""The nodes that are looked at for a Reshape before the one that fails."""


def failure(node: ResizedNode) -> str:
    """The words for a node whose inputs do not fit together."""
    inputs = [index for index in range(node.count) if not node.is_constant(index)]
    was, got = ([list(node.sizes(at)[run] or ()) for at in inputs] for run in (0, 1))
    held = next(_held(node, inputs), "")
    if not held:
        constants = [shown(node, at) for at in range(node.count) if _may_fix(node, at)]
        held = f"{node.label}: cannot compute"
        got_by = f" {_listed(got)}{_beside(constants)}"
    else:
        got_by = f", and gets {_listed(got)}"
    old = f", which was {_listed(was)}" if was != got else ""
    return f"{held}{got_by}{old}{_behind(node)}"


def _held(node: ResizedNode, inputs: Sequence[int]) -> Iterator[str]:
    """The constants that have the old size of an axis that changes."""
    for index in inputs:
        before, after = node.sizes(index)
        for axis, (old, new) in enumerate(zip(before or (), after or (), strict=False)):
            for other in range(node.count):
                if old != new and _may_fix(node, other) and old in _sizes(node, other):
                    yield fixed(node, other, old, axis)


def _may_fix(node: ResizedNode, index: int) -> bool:
    """Whether an input is a constant that is not a scalar."""
    return node.is_constant(index) and bool(node.after(index))


def _sizes(node: ResizedNode, index: int) -> Sequence[int]:
    """The sizes that a constant tells: its elements, where they are few, or its shape."""
    values = node.constant(index)
    if values is not None and values.ndim == 1 and values.dtype.kind == "i" and values.size <= 8:
        return [int(one) for one in values]
    return node.after(index) or ()


def _behind(node: ResizedNode) -> str:
    """The words for the last Reshape to a constant before a node."""
    queue, seen = [node.node], 0
    while queue and seen < _FAR:
        one = queue.pop(0)
        seen += 1
        for value in one.inputs:
            source = value.producer() if value is not None else None
            if source is None:
                continue
            found = _reshape(node, source)
            if found:
                return found
            queue.append(source)
    return ""


def _reshape(node: ResizedNode, source: ir.Node) -> str:
    one = ResizedNode(source, node.exported, node.asked, node.constants)
    target = one.constant(1) if one.operator in ("Expand", "Reshape") else None
    if target is None or not (target > 0).any():
        return ""
    return f", behind {one.label} with {shown(one, 1)}"


def _beside(constants: Sequence[str]) -> str:
    return f" beside {' and '.join(constants)}" if constants else ""


def _listed(shapes: Iterable[Sequence[int]]) -> str:
    return " and ".join(map(str, shapes))
