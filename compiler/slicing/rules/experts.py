"""Rules of mixtures of experts: each rank holds a part of the inner size of every expert."""

from __future__ import annotations

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Partial
from .quantised import parameter_dims
from .registry import factors_of


def _bias_of(operator: str) -> int:
    """The position of the second layer's bias."""
    return 7 if operator == "QMoE" else 5


def _bias_once(local: LocalNode) -> None:
    """Where ranks sum, only the first adds the bias of the second layer."""
    index = _bias_of(local.source.node.op_type)
    summed = isinstance(local.strategy.outputs[0], Partial)
    if summed and local.rank and local.source.has_input(index):
        local.node.replace_input_with(index, None)


def _inner(node: OperatorNode, size: int) -> tuple[int, tuple[int, ...]] | None:
    """How the rows of the first layer belong to the inner size: unit and segments of a step.

    Gates and values are joined in one layer: row by row, or one after the other.
    """
    rows = fixed((node.inputs[2] or ((0, 1),) * 2)[1])
    if rows == size:
        return 1, (1,)
    if rows != 2 * size:
        return None
    return (2, (1,)) if node.int_of("swiglu_fusion") == 1 else (1, (1, 1))


@factors_of("com.microsoft::MoE", localise=_bias_once)
def mixture(node: OperatorNode) -> Factors:
    """By tokens, and by the inner size: the products of the second layer are summed."""
    second = node.inputs[4] or ()
    size = fixed(second[2]) if len(second) == 3 else None
    inner = _inner(node, size) if size else None
    found = _tokens(node)
    if inner is not None:
        inputs = {2: Axis(1, *inner), 4: Axis(2)}
        inputs |= {3: Axis(1, *inner)} if node.has_input(3) else {}
        inputs |= {index: Axis(1) for index in (6, 7) if node.has_input(index)}
        found.append(Factor(inputs, {}, "sum"))
    return Factors(found)


def _tokens(node: OperatorNode) -> list[Factor]:
    """The tokens, if they are one axis."""
    if len(node.inputs[0] or ()) != 2:
        return []
    inputs = {index: Axis(0) for index in (0, 1, 14) if node.has_input(index)}
    return [Factor(inputs, {0: Axis(0)})]


@factors_of("com.microsoft::QMoE", localise=_bias_once)
def quantised_mixture(node: OperatorNode) -> Factors:
    """As MoE, for integers: in steps of whole bytes, and of whole blocks."""
    first, second = node.inputs[2] or (), node.inputs[5] or ()
    plain = (
        node.text_of("quant_type", "int") == "int" and not node.int_of("weights_prepacked", -1) > 0
    )
    bits = node.int_of("fc2_expert_weight_bits") or node.int_of("expert_weight_bits", 4)
    found = _tokens(node)
    if not plain or bits not in (2, 4, 8) or len(first) != 3 or len(second) != 3:
        return Factors(found)
    size = (fixed(second[2]) or 0) * 8 // bits
    inner = _inner(node, size)
    inputs = None if inner is None else _quantised_axes(node, bits, *inner)
    return Factors([*found, Factor(inputs, {}, "sum")] if inputs else found)


def _quantised_axes(
    node: OperatorNode, bits: int, unit: int, segments: tuple[int, ...]
) -> dict[int, Axis] | None:
    """The axes of the inner size; None where zero points of the first layer share bytes."""
    block = node.int_of("block_size")
    step = max(block, 8 // bits)
    inputs = {2: Axis(1, unit * step, segments), 5: Axis(2, step * bits // 8)}
    for index in (3, 4, 11):
        if node.has_input(index):
            inputs[index] = Axis(1, unit * step, segments)
    for index in (8, 9, 10, 13):
        if node.has_input(index):
            inputs[index] = Axis(1, step)
    zeros = [parameter_dims(node, index) for index in (11, 12, 13)]
    if any(dims is not None for dims in zeros):
        return None
    if block:
        inputs[6] = Axis(2)
    return inputs
