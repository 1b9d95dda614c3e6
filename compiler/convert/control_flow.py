"""Control flow: If and Loop as functions, of which a Switch chooses one (docs/mindir.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx_ir as ir

from ..element_types import dtypes
from ..element_types.value_types import TensorType
from .graph_names import captured, name_of
from .mindir.graph_builder import GraphBuilder
from .mindir.values import MindirValue, ResultType, scalar_type, tuple_type

_COUNT = TensorType(dtypes.INT64, ())
_CONDITION = TensorType(dtypes.BOOL, ())


class ConvertsGraphs(Protocol):
    """The conversion of a graph, as far as bodies need it."""

    builder: GraphBuilder

    def value(self, value: ir.Value) -> MindirValue:
        """A value of the graph."""

    def type(self, value: ir.Value) -> TensorType:
        """The type of a value."""

    def convert_nodes(self, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> None:
        """Add the nodes that the outputs need."""

    def scope(self, given: Mapping[str, MindirValue]) -> AbstractContextManager[None]:
        """The inside of a function, which knows the values that it is given."""


@dataclass(frozen=True, slots=True)
class Captures:
    """The outer values that bodies take, but for constants, which functions find by themselves."""

    values: Mapping[str, MindirValue]

    @classmethod
    def of(cls, c: ConvertsGraphs, bodies: Sequence[ir.Graph]) -> Captures:
        """Those of some bodies together."""
        outer = [one for body in bodies for one in captured(body)]
        found = {name_of(one): c.value(one) for one in outer}
        return cls({name: one for name, one in found.items() if one.constant is None})

    def inputs(self, builder: GraphBuilder) -> dict[str, MindirValue]:
        """The inputs of a function for them, which come first."""
        return {name: _input(builder, name, one.type) for name, one in self.values.items()}

    @property
    def given(self) -> list[MindirValue]:
        """The arguments of a call."""
        return list(self.values.values())


def branches(c: ConvertsGraphs, node: ir.Node) -> Sequence[MindirValue]:
    """If: each branch is a function of the outer values that it takes."""
    (condition,) = node.inputs
    assert condition is not None
    closures: list[MindirValue] = []
    for name in ("then_branch", "else_branch"):
        body = node.attributes[name].value
        captures = Captures.of(c, [body])
        with c.builder.function(name) as function, c.scope(captures.inputs(c.builder)):
            c.convert_nodes(list(body), body.outputs)
            results = [c.value(one) for one in body.outputs]
            c.builder.returned(results)
        closures.append(c.builder.bound(function, captures.given))
    kind = _result_type([c.type(one) for one in node.outputs])
    yes, no = closures
    chosen = c.builder.chosen(_scalar(c, c.value(condition), _CONDITION), yes, no, type=kind)
    return _items(c, chosen, len(node.outputs))


def loop(c: ConvertsGraphs, node: ir.Node) -> Sequence[MindirValue]:
    """Loop: a function that chooses between a body, which calls it again, and the end."""
    body = node.attributes["body"].value
    carried = len(body.inputs) - 2
    limit, first, *given = node.inputs
    most = c.builder.constant(np.asarray(2**62)) if limit is None else c.value(limit)
    most = _scalar(c, most, _COUNT)
    yes = c.builder.constant(np.asarray(True))
    begin = yes if first is None else _scalar(c, c.value(first), _CONDITION)
    values = [c.value(one) for one in given if one is not None]
    types = [_widened(c, one, value) for one, value in zip(body.inputs[2:], values, strict=True)]
    rows = [_row(c, one) for one in body.outputs[1 + carried :]]
    captures = Captures.of(c, [body])
    values += _beginnings(c, rows, [most, *values, *captures.given])
    types += [TensorType(one.dtype, (-1, *_sizes(one))) for one in rows]
    written = _LoopFunctions(c, body, types, captures)
    turn = c.builder.constant(np.asarray(0))
    result = written.call(most, [turn, begin, *values])
    found = _items(c, result, len(types))
    return [*found[:carried], *(_without_first(c, one) for one in found[carried:])]


CONTROL_FLOW: Mapping[str, Callable[[ConvertsGraphs, ir.Node], Sequence[MindirValue]]] = {
    "If": branches,
    "Loop": loop,
}


class _LoopFunctions:
    """The functions of one loop: its test, its body and its end."""

    def __init__(
        self,
        c: ConvertsGraphs,
        body: ir.Graph,
        types: Sequence[TensorType],
        captures: Captures,
    ) -> None:
        self._c = c
        self._body = body
        self._types = types
        self._captures = captures
        self._result = _result_type(types)
        self._test = ""

    def call(self, most: MindirValue, state: Sequence[MindirValue]) -> MindirValue:
        """The values that the loop ends with."""
        builder = self._c.builder
        with builder.function("loop_test") as self._test:
            outer = self._captures.inputs(builder)
            limit = _input(builder, "limit", _COUNT)
            turn, going, *values = self._state_inputs()
            body = self._write_body()
            end = self._write_end()
            early = builder.apply("Less", turn, limit, type=_CONDITION)
            goes_on = builder.apply("LogicalAnd", going, early, type=_CONDITION)
            again = builder.bound(body, [*outer.values(), limit, turn, *values])
            over = builder.bound(end, values)
            builder.returned([builder.chosen(goes_on, again, over, type=self._result)])
        return builder.call(self._test, *self._captures.given, most, *state, type=self._result)

    def _write_body(self) -> str:
        c, builder = self._c, self._c.builder
        with builder.function("loop_body") as name:
            outer = self._captures.inputs(builder)
            limit = _input(builder, "limit", _COUNT)
            turn = _input(builder, "turn", _COUNT)
            values = self._value_inputs()
            formal = [turn, builder.constant(np.asarray(True)), *values]
            named = dict(zip(map(name_of, self._body.inputs), formal, strict=False))
            with c.scope({**outer, **named}):
                c.convert_nodes(list(self._body), self._body.outputs)
                going, *results = [c.value(one) for one in self._body.outputs]
            carried = len(self._body.inputs) - 2
            rows = zip(values[carried:], results[carried:], strict=True)
            results[carried:] = [self._longer(all_rows, one) for all_rows, one in rows]
            following = builder.apply("Add", turn, np.asarray(1), type=_COUNT)
            state = [following, _scalar(c, going, _CONDITION), *results]
            called = builder.call(self._test, *outer.values(), limit, *state, type=self._result)
            builder.returned([called])
        return name

    def _longer(self, rows: MindirValue, row: MindirValue) -> MindirValue:
        """The rows of all turns so far, and one more."""
        builder = self._c.builder
        shape = (1, *row.shape)
        single = builder.apply("Reshape", row, shape, type=TensorType(row.dtype, shape))
        return builder.apply("Concat", builder.tuple([rows, single]), 0, type=rows.type)

    def _write_end(self) -> str:
        builder = self._c.builder
        with builder.function("loop_end") as name:
            builder.returned(self._value_inputs())
        return name

    def _state_inputs(self) -> list[MindirValue]:
        builder = self._c.builder
        turn, going = _input(builder, "turn", _COUNT), _input(builder, "going", _CONDITION)
        return [turn, going, *self._value_inputs()]

    def _value_inputs(self) -> list[MindirValue]:
        builder = self._c.builder
        return [_input(builder, f"value{at}", kind) for at, kind in enumerate(self._types)]


def _widened(c: ConvertsGraphs, formal: ir.Value, first: MindirValue) -> TensorType:
    """The type of a value that turns pass on: a size that changes is open."""
    kind = c.type(formal) if formal.dtype is not None else first.type
    assert isinstance(kind, TensorType)
    if kind.shape is None or len(kind.shape) != first.rank:
        raise ValueError("the number of dimensions of a value changes from turn to turn")
    sizes = zip(kind.shape, first.shape, strict=True)
    return TensorType(first.dtype, tuple(a if a == b else -1 for a, b in sizes))


def _row(c: ConvertsGraphs, value: ir.Value) -> TensorType:
    """The type of what each turn gives; ValueError where its sizes are open."""
    kind = c.type(value)
    if not kind.known:
        raise ValueError("the sizes of what each turn gives are open: fix them by --inputShape")
    return kind


def _beginnings(
    c: ConvertsGraphs, rows: Sequence[TensorType], others: Sequence[MindirValue]
) -> list[MindirValue]:
    """A tensor with one row for each output of all turns.

    The model computes how many rows that is: MindSpore takes a constant shape to be that of all
    turns. No element of a value is less than itself, so that it is 1.
    """
    if not rows:
        return []
    computed = [one for one in others if one.constant is None]
    if not computed:
        raise ValueError("nothing of a loop with outputs of all turns is computed by the model")
    value, builder = computed[0], c.builder
    never = builder.apply("Less", value, value, type=TensorType(np.dtype(bool), value.shape))
    number = dtypes.to_type_id(dtypes.INT64)
    whole = builder.apply("Cast", never, number, type=TensorType(dtypes.INT64, value.shape))
    nought = builder.apply("ReduceMax", whole, (), False, type=_COUNT) if value.shape else whole
    single = builder.apply("Add", nought, np.asarray(1), type=_COUNT)
    count = builder.apply("TensorToScalar", single, type=scalar_type())
    return [_blank(builder, count, one) for one in rows]


def _blank(builder: GraphBuilder, count: MindirValue, row: TensorType) -> MindirValue:
    sizes = builder.tuple([count, *(builder.constant(size) for size in _sizes(row))])
    nought = np.zeros((), row.dtype).item()
    kind = TensorType(row.dtype, (-1, *_sizes(row)))
    return builder.apply("FillScalar", sizes, nought, dtypes.to_type_id(row.dtype), type=kind)


def _sizes(kind: TensorType) -> tuple[int, ...]:
    assert kind.shape is not None
    return kind.shape


def _without_first(c: ConvertsGraphs, rows: MindirValue) -> MindirValue:
    """The rows but for the first, which only gives the loop a tensor to begin with."""
    rank, axes = rows.rank, (1 << rows.rank) - 2
    begin, end, step = (1,) + (0,) * (rank - 1), (0,) * rank, (1,) * rank
    masks = (axes, axes | 1, 0, 0, 0)
    return c.builder.apply("StridedSlice", rows, begin, end, step, *masks, type=rows.type)


def _input(builder: GraphBuilder, name: str, kind: ResultType) -> MindirValue:
    assert isinstance(kind, TensorType)
    return builder.input(name, kind)


def _scalar(c: ConvertsGraphs, value: MindirValue, kind: TensorType) -> MindirValue:
    """A value of one element without dimensions."""
    if value.constant is not None:
        return c.builder.constant(np.asarray(value.constant).reshape(()))
    return value if value.shape == () else c.builder.apply("Reshape", value, (), type=kind)


def _result_type(types: Sequence[TensorType]) -> ResultType:
    """The type of a function with these results."""
    return types[0] if len(types) == 1 else tuple_type([MindirValue("", one) for one in types])


def _items(c: ConvertsGraphs, result: MindirValue, count: int) -> Sequence[MindirValue]:
    return [result] if count == 1 else [c.builder.item(result, at) for at in range(count)]
