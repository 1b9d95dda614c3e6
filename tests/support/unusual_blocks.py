"""Branches, loops and local functions of random models, which capture what is around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper
from unusual_graphs import Draft, Value
from unusual_operators import INT64, binary, clip, leaky, unary

_SAME_SHAPE = (unary, unary, leaky, clip, binary)
DOMAIN = "my.functions"


def branches(draft: Draft) -> Value | None:
    """An If, whose branches compute different things of values around it."""
    x = draft.pick()
    if x is None:
        return None
    condition = _condition(draft, x)
    graphs = [_branch(draft, x, f"branch{side}") for side in range(2)]
    out = draft.fresh()
    draft.node("If", [condition], [out], then_branch=graphs[0], else_branch=graphs[1])
    return draft.add(Value(out, x.dtype, x.shape))


def _condition(draft: Draft, x: Value) -> str:
    if draft.chance(0.4):
        return draft.constant(np.array(draft.chance(0.5)))
    size = draft.fresh()
    draft.node("Size", [x.name], [size])
    out = draft.fresh()
    few = draft.constant(np.array(draft.random.randrange(30), np.int64))
    draft.node("Greater", [size, few], [out])
    return out


def _branch(draft: Draft, x: Value, name: str, deeper: bool = True) -> onnx.GraphProto:
    inner = draft.inner()
    made = _steps(inner, x)
    if deeper and draft.chance(0.2):
        nested = [_branch(inner, made, f"{name}{side}", False) for side in range(2)]
        out = inner.fresh()
        condition = _condition(inner, made)
        inner.node("If", [condition], [out], then_branch=nested[0], else_branch=nested[1])
        made = Value(out, x.dtype, x.shape)
    info = _info(draft, made)
    graph = helper.make_graph(inner.nodes, name, [], [info], inner.initializers)
    return graph


def _steps(inner: Draft, x: Value) -> Value:
    """One to three operators that keep the shape; the last gives what no other graph has."""
    made = x
    for _ in range(inner.random.randrange(1, 4)):
        inner.values = [made, *(one for one in inner.values if one.shape == x.shape)]
        found = inner.random.choice(_SAME_SHAPE)(inner)
        if found is not None and found.shape == x.shape and found.dtype == x.dtype:
            made = found
    if made is x or made.name not in {out for node in inner.nodes for out in node.output}:
        made = inner.apply("Identity", [made.name], made)
    return made


def _info(draft: Draft, value: Value) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    shape = None if draft.chance(0.4) else [None] * len(value.shape)
    return helper.make_tensor_value_info(value.name, kind, shape)


def loop(draft: Draft) -> Value | None:
    """A Loop that changes a value a few times, and may keep what each turn gives."""
    x = draft.pick()
    if x is None or x.dtype == np.float16:
        return None
    inner = draft.inner()
    turn, going, state = inner.fresh("turn"), inner.fresh("going"), inner.fresh("state")
    own = Value(state, x.dtype, x.shape)
    made = _steps(inner, inner.add(own))
    kept = inner.fresh("kept")
    inner.node("Identity", [going], [kept])
    infos = [
        helper.make_tensor_value_info(turn, TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        _info(draft, own),
    ]
    outs = [helper.make_tensor_value_info(kept, TensorProto.BOOL, []), _info(draft, made)]
    names = [draft.fresh()]
    turns = draft.random.randrange(1, 4)
    if draft.chance(0.3):
        scanned = inner.apply("Identity", [made.name], made)
        outs.append(_info(draft, scanned))
        names.append(draft.fresh())
        if turns != draft.batch:
            draft.add(Value(names[1], x.dtype, (turns, *x.shape)))
    body = helper.make_graph(inner.nodes, "body", infos, outs, inner.initializers)
    limit = draft.constant(np.array(turns, np.int64))
    draft.node("Loop", [limit, draft.constant(np.array(True)), x.name], names, body=body)
    return draft.add(Value(names[0], x.dtype, x.shape))


def call(draft: Draft) -> Value | None:
    """A call of a local function, which is made with it or was there."""
    x = draft.pick()
    if x is None:
        return None
    if x.dtype == np.float16:  # of which onnxruntime has no LeakyRelu
        return None
    draft.domains[DOMAIN] = 1
    known = [one for one in draft.functions if one.domain == DOMAIN]
    if known and draft.chance(0.4):
        function = draft.random.choice(known)
    else:
        function = draft.random.choice((_scaled, _nested, _branching, _affine, _constant_inside))(
            draft
        )
    given = {}
    needed = list(function.attribute)
    for name in (*needed, *(one.name for one in function.attribute_proto)):
        if name not in needed and draft.chance(0.5):
            continue
        given[name] = draft.random.choice([0.05, 0.2, 0.6])
    inputs = [x.name] if len(function.input) == 1 else [x.name, draft.weight(1, dtype=x.dtype)]
    outputs = [draft.fresh() for _ in function.output]
    if len(outputs) > 1 and draft.chance(0.3):
        outputs[1] = ""
    node = draft.node(function.name, inputs, outputs, DOMAIN, **given)
    if function.overload:
        node.overload = function.overload
    return draft.add(Value(outputs[0], x.dtype, x.shape))


def _function(
    draft: Draft,
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    nodes: Sequence[NodeProto],
    needed: Sequence[str] = (),
    defaults: Sequence[AttributeProto] = (),
) -> FunctionProto:
    """A function of the same opset, or now and then of another one."""
    opset = draft.opset
    if draft.chance(0.15):
        opset = draft.random.choice([max(13, opset - 1), max(13, opset - 3)])
    imports = [helper.make_opsetid("", opset)]
    if any(node.domain == DOMAIN for node in nodes):
        imports.append(helper.make_opsetid(DOMAIN, 1))
    number = len(draft.functions)
    again = [one for one in draft.functions if one.name.startswith(name)]
    own, overload = f"{name}{number}", ""
    if again and draft.chance(0.3):
        own, overload = again[0].name, f"overload{number}"
    made = helper.make_function(DOMAIN, own, inputs, outputs, nodes, imports, needed, defaults)
    if overload:
        made.overload = overload
    draft.functions.append(made)
    return made


def refers(node: NodeProto, name: str, source: str) -> NodeProto:
    """Have an attribute of a node be that of the function around it."""
    node.attribute.append(
        AttributeProto(name=name, ref_attr_name=source, type=AttributeProto.FLOAT)
    )
    return node


def _default(name: str, value: float) -> AttributeProto:
    return helper.make_attribute(name, value)


def _scaled(draft: Draft) -> FunctionProto:
    """A LeakyRelu whose slope is the function's attribute, with a default, required or neither."""
    node = refers(helper.make_node("LeakyRelu", ["t"], ["y"]), "alpha", "slope")
    if draft.chance(0.6):
        return _function(draft, "Slope", ["t"], ["y"], [node], (), [_default("slope", 0.25)])
    return _function(draft, "Slope", ["t"], ["y"], [node], ["slope"])


def _nested(draft: Draft) -> FunctionProto:
    """A function that calls another, with an attribute of its own, and names it like the graph."""
    inner = _scaled(draft)
    again = helper.make_node(inner.name, ["t"], ["v1"], domain=DOMAIN)
    if inner.overload:
        again.overload = inner.overload
    if inner.attribute or draft.chance(0.5):
        refers(again, "slope", "outer_slope")
    nodes = [
        again,
        helper.make_node("Tanh", ["v1"], ["v2"]),
        helper.make_node("Add", ["v2", "t"], ["y"]),
    ]
    return _function(draft, "Nested", ["t"], ["y"], nodes, (), [_default("outer_slope", 0.3)])


def _branching(draft: Draft) -> FunctionProto:
    """A function with branches, inside which its attribute counts."""
    sides = []
    for side in range(2):
        inner = refers(helper.make_node("LeakyRelu", ["t"], [f"z{side}"]), "alpha", "slope")
        if side:
            inner = helper.make_node("Neg", ["t"], [f"z{side}"])
        out = helper.make_tensor_value_info(f"z{side}", _code(draft), None)
        sides.append(helper.make_graph([inner], f"side{side}", [], [out]))
    few = helper.make_node("Constant", [], ["few"], value_int=draft.random.randrange(40))
    nodes = [
        helper.make_node("Size", ["t"], ["size"]),
        few,
        helper.make_node("Greater", ["size", "few"], ["large"]),
        helper.make_node("If", ["large"], ["y"], then_branch=sides[0], else_branch=sides[1]),
    ]
    return _function(draft, "Either", ["t"], ["y"], nodes, (), [_default("slope", 0.2)])


def _affine(draft: Draft) -> FunctionProto:
    """A function of two inputs and two outputs."""
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["v1"]),
        helper.make_node("Sigmoid", ["v1"], ["y"]),
        helper.make_node("Neg", ["v1"], ["z"]),
    ]
    return _function(draft, "Affine", ["a", "b"], ["y", "z"], nodes)


def _constant_inside(draft: Draft) -> FunctionProto:
    """A function with a constant that its attribute is, as a number of float32."""
    number = refers(helper.make_node("Constant", [], ["k"]), "value_float", "k")
    like = helper.make_node("CastLike", ["k", "t"], ["c"])
    if draft.opset < 15:
        like = helper.make_node("Cast", ["k"], ["c"], to=_code(draft))
    nodes = [number, like, helper.make_node("Add", ["t", "c"], ["y"])]
    return _function(draft, "Shift", ["t"], ["y"], nodes, (), [_default("k", 0.5)])


def _code(draft: Draft) -> int:
    return int(helper.np_dtype_to_tensor_dtype(draft.dtype))


BLOCKS = (branches, branches, loop, call, call, call)
__all__ = ["BLOCKS", "DOMAIN", "INT64"]
