"""Misfits: tell why a node cannot compute what it was exported for with other shapes.

ONNX's inference finds the shapes that no operator takes. Here are those that are taken, and lead
to something else than the exported model: a constant of the old shape holds where the new one
should. Each function tells the reason, None where the node fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .axis_factors import AxisFactors
from .operand_sizes import equal_sizes
from .reshape_axes import contradiction
from .resized_node import ResizedNode

_BROADCASTING = frozenset(
    "Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Expand Greater GreaterOrEqual Less "
    "LessOrEqual MatMul Max Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor".split()
)
Reason = str | None


def misfit(node: ResizedNode, factors: AxisFactors, sure: bool) -> Reason:
    """Why a node does not fit to the shapes that it gets; with `sure`, even to those that both runs
    have.
    """
    if node.unsure:
        return None
    if not node.changes:
        return _operands(node) if sure else None
    if node.operator == "Reshape":
        return _reshape(node, factors)
    one = _RULES.get(node.operator)
    reasons = (check(node) for check in (one, _ranks, _nothing_left, _operands) if check)
    return next((reason for reason in reasons if reason), None)


def fixed(node: ResizedNode, index: int, size: int, axis: int) -> str:
    """The words for a constant that fixes a size of a node."""
    return f"{node.label}: {shown(node, index)} fixes dimension {axis} at {size}"


def shown(node: ResizedNode, index: int) -> str:
    """A constant input as users see it: its elements, where they are few integers."""
    values = node.constant(index)
    name = f"the constant '{node.name(index)}'"
    if values is not None and values.dtype.kind in "iu" and values.size <= 8:
        return f"{name} = {values.tolist()}"
    return f"{name} of the shape {list(node.after(index) or ())}"


def _reshape(node: ResizedNode, factors: AxisFactors) -> Reason:
    outputs, sources = list(node.outputs()), factors.of(node)
    if not outputs or sources is None:
        return None
    _, old, new = outputs[0]
    axes = contradiction((sources[0], old), (sources[1], new))
    if axes is None:
        return None
    target = node.constant(1)
    got = f"for {list(node.after(0) or ())}, which was {list(node.before(0) or ())}"
    if target is None:
        return f"{node.label}: gives {list(new)} {got}, so its elements get other places"
    held = [axis for axis in axes if axis < target.size and target[axis] > 0] or [axes[0]]
    return f"{fixed(node, 1, int(old[held[0]]), held[0])}, and it gives {list(new)} {got}"


def _broadcast(node: ResizedNode) -> Reason:
    """A size that is now 1 is spread to that of a constant, as if nothing was asked for."""
    for index in range(node.count):
        for axis, old in _now_single(node, index):
            for other in range(node.count):
                if node.is_constant(other) and _size_at(node, other, axis) == old:
                    place = len(node.sizes(index)[0] or ()) + axis
                    return f"{fixed(node, other, old, place)}, and gets 1 there"
    return None


def _now_single(node: ResizedNode, index: int) -> Iterator[tuple[int, int]]:
    """The axes of an input, counted from the last, whose size became 1, and the old size."""
    before, after = node.sizes(index)
    if before is None or after is None or len(before) != len(after):
        return
    inner = 2 if node.operator == "MatMul" else 0
    for axis in range(-len(before), -inner):
        if after[axis] == 1 < before[axis]:
            yield axis, before[axis]


def _size_at(node: ResizedNode, index: int, axis: int) -> int:
    """The size of a constant at an axis from the last."""
    _, sizes = node.sizes(index)
    return sizes[axis] if sizes and len(sizes) >= -axis else 1


def _slice(node: ResizedNode) -> Reason:
    """A Slice to a number that was the end leaves out what is behind it now."""
    before, after = node.before(0), node.after(0)
    starts, ends = node.constant(1), node.constant(2)
    if before is None or after is None or starts is None or ends is None:
        return None
    axes, steps = node.constant(3), node.constant(4)
    order = range(ends.size) if axes is None else axes.tolist()
    for at, axis in enumerate(order):
        step, place = 1 if steps is None else int(steps[at]), axis % len(before)
        if step > 0 and int(ends[at]) == before[axis] < after[axis]:
            return f"{fixed(node, 2, before[axis], place)}, and gets {after[axis]}"
        if step > 0 and before[axis] > int(starts[at]) >= after[axis] > 0:
            return f"{node.label}: {shown(node, 1)} begins behind dimension {place}, {after[axis]}"
    return None


def _gather(node: ResizedNode) -> Reason:
    """Rows that were all of a table are only some of it now, or are not there."""
    before, after, rows = node.before(0), node.after(0), node.constant(1)
    if before is None or after is None or rows is None or not rows.size:
        return None
    axis = node.int_of("axis", 0) % len(before)
    if before[axis] == after[axis]:
        return None
    if rows.max() >= after[axis] or rows.min() < -after[axis]:
        return f"{fixed(node, 1, before[axis], axis)}, and gets {after[axis]}"
    taken = {int(row) % before[axis] for row in rows.reshape(-1)}
    if taken == set(range(before[axis])) and rows.min() >= 0:
        return f"{fixed(node, 1, before[axis], axis)}, and gets {after[axis]}"
    return None


def _resize(node: ResizedNode) -> Reason:
    """Batch and channels are not resampled; sizes of the old ones would do that."""
    before, after, sizes = node.before(0), node.after(0), node.constant(3)
    if before is None or after is None or sizes is None or sizes.size != len(before):
        return None
    for axis in (0, 1):
        if before[axis] == sizes[axis] != after[axis]:
            return f"{fixed(node, 3, before[axis], axis)}, and gets {after[axis]}"
    return None


def _ranks(node: ResizedNode) -> Reason:
    for _, old, new in node.outputs():
        if len(old) != len(new):
            return f"{node.label}: gives {list(new)}, which was {list(old)}"
    return None


def _nothing_left(node: ResizedNode) -> Reason:
    """No input is empty, and an output is. A Slice may give parts of none, as those of a Roll."""
    if node.operator in ("Slice", "Split"):
        return None
    inputs = [node.after(index) or (1,) for index in range(node.count)]
    if any(0 in shape for shape in inputs):
        return None
    for _, old, new in node.outputs():
        if min(new, default=1) <= 0 < min(old, default=1):
            return f"{node.label}: leaves nothing of {list(inputs[0])}"
    return None


def _operands(node: ResizedNode) -> Reason:
    """The sizes that an operator needs equal, and that ONNX's inference does not look at."""
    for (index, axis, size), (other, _, wanted) in equal_sizes(node):
        if size == wanted:
            continue
        if node.is_constant(other):
            place = axis % len(node.after(index) or (1,))
            return f"{fixed(node, other, wanted, place)}, and gets {size}"
        shapes = [list(node.after(one) or ()) for one in (index, other)]
        return f"{node.label}: cannot compute {shapes[0]} with {shapes[1]}"
    return None


_RULES: dict[str, Callable[[ResizedNode], Reason]] = {
    **dict.fromkeys(_BROADCASTING, _broadcast),
    "Slice": _slice,
    "Gather": _gather,
    "Resize": _resize,
}
