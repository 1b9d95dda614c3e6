"""Sequences: lists of tensors whose elements are known when the model is converted.

MindSpore has no such lists. Operators that take an element of a sequence, its length or all of it
take the tensors themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands

_MOST = 1 << 12  # elements of a sequence


@expands("SequenceAt")
def element(e: Expander, sequence: ir.Value, position: ir.Value) -> ir.Value:
    """One element."""
    elements = _elements(e, sequence)
    last = len(elements) - 1
    return e.op("Identity", elements[_place(e, position, last, last, len(elements))])


@expands("SequenceLength")
def length(e: Expander, sequence: ir.Value) -> ir.Value:
    """The number of elements."""
    return e.constant(len(_elements(e, sequence)))


@expands("ConcatFromSequence")
def joined(e: Expander, sequence: ir.Value, *, axis: int, new_axis: int = 0) -> ir.Value:
    """All elements along an axis, which may be a new one."""
    elements = _elements(e, sequence)
    if new_axis:
        elements = [e.op("Unsqueeze", one, e.constant([axis])) for one in elements]
    return e.op("Concat", *elements, axis=axis)


@expands(
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SplitToSequence",
)
def sequence(e: Expander, *inputs: ir.Value, **attributes: object) -> NoReturn:
    """Left as it is: it goes with the operators that take it."""
    raise ValueError(
        "MindSpore has no sequences: expected one that SequenceAt, SequenceLength or "
        "ConcatFromSequence takes, outside of the loop or branch that makes it"
    )


def _elements(e: Expander, sequence: ir.Value) -> Sequence[ir.Value]:
    """The elements of a sequence; ValueError where they depend on what the model computes."""
    node = sequence.producer()
    made = None if node is None else _MAKERS.get(node.op_type)
    if node is None or made is None:
        what = "an input" if node is None else f"a result of {node.op_type}"
        raise ValueError(
            f"its sequence '{sequence.name}' is {what}: expected one of SequenceConstruct, "
            "SequenceEmpty, SequenceInsert, SequenceErase or SplitToSequence"
        )
    found = made(e, node)
    if len(found) > _MOST:
        raise ValueError(f"its sequence has {len(found)} elements, expected at most {_MOST}")
    return found


def _place(e: Expander, position: ir.Value | None, default: int, most: int, count: int) -> int:
    """A constant position, which counts from the end of `count` elements where it is negative;
    ValueError for one that is not from -count to `most`.
    """
    place = default if position is None else int(e.array(position).reshape(-1)[0])
    if not -count <= place <= most:
        raise ValueError(f"its position {place} is not in a sequence of {count} elements")
    return place if place >= 0 else place + count


def _constructed(e: Expander, node: ir.Node) -> Sequence[ir.Value]:
    return [one for one in node.inputs if one is not None]


def _same(e: Expander, node: ir.Node) -> Sequence[ir.Value]:
    return _elements(e, _input(node, 0))


def _inserted(e: Expander, node: ir.Node) -> Sequence[ir.Value]:
    """With another element before a place, by default behind the last."""
    elements = list(_elements(e, _input(node, 0)))
    at = node.inputs[2] if len(node.inputs) > 2 else None
    elements.insert(_place(e, at, len(elements), len(elements), len(elements)), _input(node, 1))
    return elements


def _erased(e: Expander, node: ir.Node) -> Sequence[ir.Value]:
    """Without one element, by default the last."""
    elements = list(_elements(e, _input(node, 0)))
    at = node.inputs[1] if len(node.inputs) > 1 else None
    last = len(elements) - 1
    del elements[_place(e, at, last, last, len(elements))]
    return elements


def _split(e: Expander, node: ir.Node) -> Sequence[ir.Value]:
    """The parts, which are made once, where the sequence was."""
    if node not in e.parts:
        e.parts[node] = _parts(e.at(node), node)
    return e.parts[node]


def _parts(e: Expander, node: ir.Node) -> Sequence[ir.Value]:
    """Parts of one size, or of several, or slices without the axis."""
    x = _input(node, 0)
    axis = _number(node, "axis", 0) % e.rank(x)
    size = e.sizes(x)[axis]
    if size is None:
        raise ValueError(f"the size of axis {axis} of '{x.name}' is open: fix it by --inputShape")
    given = node.inputs[1] if len(node.inputs) > 1 else None
    sizes = np.ones(size, np.int64) if given is None else _part_sizes(e.array(given), size)
    parts = e.ops("Split", x, e.constant(sizes), outputs=len(sizes), axis=axis)
    if given is not None or _number(node, "keepdims", 1):
        return parts
    return [e.op("Squeeze", one, e.constant([axis])) for one in parts]


def _part_sizes(given: np.ndarray, size: int) -> np.ndarray:
    """The sizes of all parts; a single number is that of all but the last."""
    if given.ndim:
        return given
    step = max(1, int(given))
    return np.diff(np.append(np.arange(0, size, step), size))


def _number(node: ir.Node, name: str, default: int) -> int:
    found = node.attributes.get(name)
    return default if found is None else found.as_int()


def _input(node: ir.Node, index: int) -> ir.Value:
    found = node.inputs[index]
    assert found is not None
    return found


_MAKERS: dict[str, Callable[[Expander, ir.Node], Sequence[ir.Value]]] = {
    "Identity": _same,
    "SequenceConstruct": _constructed,
    "SequenceEmpty": _constructed,
    "SequenceErase": _erased,
    "SequenceInsert": _inserted,
    "SplitToSequence": _split,
}
