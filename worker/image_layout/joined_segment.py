"""Joined segment: all segments of a plan as one; results of collectives are its inputs."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, helper, numpy_helper

from ...compiler.element_types import dtypes
from ...compiler.element_types.value_types import TensorType
from ...compiler.onnx_graph.onnx_values import value_info
from ...compiler.onnx_graph.segment_model import segment_model
from ..partition.plan import CollectiveStep, Plan, Segment

RULER = "rankmesh.ruler"
"""The output of a convolution of one channel, whose weight shows how many channels the layout holds
together."""

_RULER_INPUT, _RULER_WEIGHT = f"{RULER}.input", f"{RULER}.weight"
_PIXEL = TensorType(dtypes.FLOAT32, (1, 1, 1, 1))


def joined_segment(plan: Plan) -> Segment | None:
    """The joined segment; None where joining gains nothing, or steps are more than segments and
    collectives.

    It gains where at least two segments convolve. Its model has the ruler besides.
    """
    segments = [step for step in plan.steps if isinstance(step, Segment)]
    exchanges = [step for step in plan.steps if isinstance(step, CollectiveStep)]
    plain = len(segments) + len(exchanges) == len(plan.steps) and not plan.states
    if not plain or sum(map(_convolves, segments)) < 2:
        return None
    taken = {name for one in segments for name in one.inputs}
    made = {name for one in segments for name in one.outputs}
    given = [one.value for one in plan.inputs]
    given += [name for one in exchanges for name in one.outputs]
    wanted = [name for one in exchanges for name in one.inputs]
    wanted += [one.value for one in plan.outputs]
    types = {**plan.types, **{one.value: one.type for one in plan.inputs}}
    inputs = [name for name in given if name in taken]
    outputs = [name for name in dict.fromkeys(wanted) if name in made]
    weights = {one.name: one for part in segments for one in part.model.graph.initializer}
    model = segment_model(
        segments[0].model,
        [node for one in segments for node in one.model.graph.node],
        [(name, types[name]) for name in inputs],
        outputs,
        list(weights.values()),
        types,
        plan.path,
    )
    _add_ruler(model.graph)
    return Segment(model, (*inputs, _RULER_INPUT), (*outputs, RULER))


def _convolves(segment: Segment) -> bool:
    return any(node.op_type == "Conv" and not node.domain for node in segment.model.graph.node)


def _add_ruler(graph: GraphProto) -> None:
    graph.input.append(value_info(_RULER_INPUT, _PIXEL))
    graph.output.append(value_info(RULER, _PIXEL))
    weight = np.zeros((1, 1, 1, 1), np.float32)
    graph.initializer.append(numpy_helper.from_array(weight, _RULER_WEIGHT))
    graph.node.append(helper.make_node("Conv", [_RULER_INPUT, _RULER_WEIGHT], [RULER]))
