"""Calls of functions: inlined where the callee is known, else an If or a Loop.

MindSpore writes control flow as functions that end in a call of the next one: the branches of an
`if` both call the function behind it, a loop's body calls the loop's header again, `break` and
`return` call the function behind the loop, or none. So a piece of a graph is lowered to its *exits*
(exits.py). A function that is called once is lowered at its call. A function that is called several
times is an exit of each caller, and is lowered once, where the ways to it come together. A function
behind a loop is an exit of the loop likewise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from onnx import NodeProto

from ...element_types.value_types import TensorType, ValueType
from ...mindir.graph import Graph, MindirModel
from ..builder import BOOL, Builder, OnnxTensor, Value
from .analysis import CallGraph, raising_functions
from .exits import RETURN, ControlFlowPosition, Exits, LoweredBranch, PayloadTypes
from .joins import BranchJoin
from .loops import LoopLowering
from .memory import AssignedParameter, ModelMemory
from .trees import Closure, ClosureChoice, identical, leaves, rebuilt

# protobuf reads no more than 100 messages inside each other; an If inside an If is three.
_MAX_DEPTH = 30
_DEEP_ENOUGH = 6  # a function behind so many branches is lowered outside of them
Trace = Callable[[Graph, dict[str, Value], ControlFlowPosition], Exits]
BranchLowering = Callable[[ControlFlowPosition], Exits]


class CallLowering:
    """Calls of one model while it is lowered; `trace` lowers one graph."""

    def __init__(self, b: Builder, model: MindirModel, memory: ModelMemory, trace: Trace) -> None:
        self._b = b
        self._model = model
        self._memory = memory
        self._trace = trace
        self._graph = CallGraph(model)
        self._raising = raising_functions(model)
        self._numbers: dict[str, int] = defaultdict(count().__next__)  # of options, for run time
        self._depth = 0
        self._active: list[str] = []  # the functions being lowered, outermost first

    def value(self, callee: Value, arguments: Sequence[Value], kind: ValueType) -> Value:
        """The result of a call, where the caller uses it."""
        return self.frame(lambda position: self.tail(callee, arguments, position), kind)

    def frame(self, lower: BranchLowering, kind: ValueType) -> Value:
        """The one result of all that `lower` leads to."""
        position = ControlFlowPosition(kind)
        exits = self._settled(lower(position), position)
        (result,), self._memory.variables.held = exits.options[RETURN]
        return result

    def returned(self, value: Value) -> Exits:
        """The exit of a graph that ends in a value."""
        return Exits({RETURN: ((value,), self._memory.variables.held)}, self._numbers[RETURN])

    def tail(
        self, callee: Value, arguments: Sequence[Value], position: ControlFlowPosition
    ) -> Exits:
        """The exits of a call at the end of a function."""
        if isinstance(callee, ClosureChoice):
            return self._joined(
                callee.condition,
                position,
                lambda inner: self.tail(callee.yes, arguments, inner),
                lambda inner: self.tail(callee.no, arguments, inner),
            )
        if not isinstance(callee, Closure):
            raise ValueError("calls something that is no function")
        name, values = callee.function, (*callee.bound, *arguments)
        if self._comes_later(name, position):
            return Exits({name: (values, self._memory.variables.held)}, self._numbers[name])
        return self._entered(name, values, position)

    def _comes_later(self, name: str, position: ControlFlowPosition) -> bool:
        """Whether a function is lowered elsewhere: as a next round, behind a loop, at a join."""
        if name in position.headers or position.branches == _DEEP_ENOUGH:
            return True
        if position.branches and self._graph.shared(name):
            return True
        if not position.headers:
            return False
        return not self._graph.reaches(name, position.headers[-1], position.headers[:-1])

    def _entered(
        self, name: str, values: tuple[Value, ...], position: ControlFlowPosition
    ) -> Exits:
        graph = self._model.functions.get(name)
        if graph is None:
            raise ValueError(f"calls '{name}', which the file does not hold")
        if len(values) != len(graph.inputs):
            raise ValueError(
                f"calls {graph.name} with {len(values)} arguments, expected {len(graph.inputs)}"
            )
        if name in self._active:
            raise ValueError(
                f"calls {graph.name}, inside which it lies, before that function's end: only "
                f"loops, which do so at the end, are supported"
            )
        self._active.append(name)
        try:
            if self._graph.reaches(name, name, position.headers):
                return self._looped(graph, values, position)
            return self._traced(graph, values, position)
        finally:
            self._active.pop()

    def _traced(
        self, graph: Graph, values: tuple[Value, ...], position: ControlFlowPosition
    ) -> Exits:
        scope = {argument.key: value for argument, value in zip(graph.inputs, values, strict=True)}
        return self._trace(graph, scope, position)

    def _looped(
        self, graph: Graph, values: tuple[Value, ...], position: ControlFlowPosition
    ) -> Exits:
        entry = (values, self._memory.variables.held)
        kind = self._payload_types(position).of(graph.name)
        loop = LoopLowering(self._b, graph.name, self._numbers, entry, kind)

        def body(payload: Value) -> Exits:
            bound, self._memory.variables.held = payload
            inner = replace(
                position,
                headers=(*position.headers, graph.name),
                branches=0,
                untaken={**position.untaken, graph.name: leaves(payload)},
            )
            return self._settled(self._traced(graph, bound, inner), inner)

        with self._scope():
            exits = loop.run(body)
        return self._settled(exits, position)

    def _settled(self, exits: Exits, position: ControlFlowPosition) -> Exits:
        """Go on with the exits that are lowered here, those first to which no other one leads."""
        while True:
            later = [
                name
                for name in exits.options
                if name != RETURN and not self._comes_later(name, position)
            ]
            if not later:
                return exits
            exits = self._continued(exits, self._first(later, position), position)

    def _first(self, later: Sequence[str], position: ControlFlowPosition) -> str:
        """The function to which no other one leads, the first of all where each is led to."""
        for name in later:
            others = (other for other in later if other != name)
            if not any(self._graph.reaches(other, name, position.headers) for other in others):
                return name
        return later[0]

    def _continued(self, exits: Exits, name: str, position: ControlFlowPosition) -> Exits:
        rest = {option: payload for option, payload in exits.options.items() if option != name}
        arguments, variables = exits.options[name]

        def go_on(inner: ControlFlowPosition) -> Exits:
            self._memory.variables.held = variables
            return self._entered(name, arguments, inner)

        if not rest:
            return go_on(position)
        taken = self._numbers[next(iter(rest))] if len(rest) == 1 else exits.taken
        condition = self._b.op("Equal", exits.taken, self._numbers[name], type=TensorType(BOOL, ()))
        return self._joined(condition, position, go_on, lambda inner: Exits(rest, taken))

    def _joined(
        self,
        condition: OnnxTensor,
        position: ControlFlowPosition,
        yes: BranchLowering,
        no: BranchLowering,
    ) -> Exits:
        """The exits of two branches, of which a condition picks one."""
        inner = replace(position, branches=position.branches + 1)
        first, second = self._branch(yes, inner), self._branch(no, inner)
        first, second = self._read(first, second), self._read(second, first)
        types = self._payload_types(position)
        return BranchJoin(self._b, (first, second), types, position).exits(condition)

    def _read(self, branch: LoweredBranch, other: LoweredBranch) -> LoweredBranch:
        """A branch that hands on contents of parameters where the other hands on another value."""
        options = dict(branch.exits.options)
        for name in options.keys() & other.exits.options.keys():
            values, (_, parameters) = leaves(other.exits.options[name]), options[name]
            now = dict(zip(self._memory.variables.keys, parameters, strict=True))
            own = leaves(options[name])
            if now and len(own) == len(values):
                fresh = [
                    now[leaf.key]
                    if isinstance(leaf, AssignedParameter) and not identical(leaf, value)
                    else leaf
                    for leaf, value in zip(own, values, strict=True)
                ]
                options[name] = rebuilt(options[name], iter(fresh))
        return replace(branch, exits=replace(branch.exits, options=options))

    def _branch(self, lower: BranchLowering, position: ControlFlowPosition) -> LoweredBranch:
        nodes: list[NodeProto] = []
        with self._scope(), self._b.inside(nodes):
            return LoweredBranch(nodes, lower(position))

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """A scope whose writes are forgotten at its end, but for those that exits hand on."""
        if self._depth == _MAX_DEPTH:
            raise ValueError(
                f"branches and loops lie more than {_MAX_DEPTH} deep inside each other"
            )
        held, overwritten = self._memory.variables.held, self._memory.overwritten
        self._memory.overwritten = overwritten.copy()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._memory.variables.held, self._memory.overwritten = held, overwritten

    def _payload_types(self, position: ControlFlowPosition) -> PayloadTypes:
        return PayloadTypes(self._model, position.returns, self._memory.variables.types)

    def switch(self, inputs: Sequence[Value]) -> Value:
        """One of two values, usually closures, by a condition; one that only raises is left out.

        onnxruntime itself refuses what such a check would refuse.
        """
        condition, yes, no = self._memory.read(tuple(inputs[:3]))
        if not isinstance(condition, OnnxTensor):
            return yes if bool(condition) else no
        for one, other in ((yes, no), (no, yes)):
            if isinstance(one, Closure) and one.function in self._raising:
                return other
        if condition.shape != ():
            condition = self._b.op("Reshape", condition, (), type=TensorType(condition.dtype, ()))
        choice = ClosureChoice(self._b.cast(condition, BOOL), inputs[1], inputs[2])
        if isinstance(yes, (Closure, ClosureChoice)) and isinstance(no, (Closure, ClosureChoice)):
            return choice
        exits = self._joined(
            choice.condition,
            ControlFlowPosition(),
            lambda _: self.returned(choice.yes),
            lambda _: self.returned(choice.no),
        )
        return exits.options[RETURN][0][0]

    def switch_layer(self, index: Value, closures: tuple[Value, ...]) -> Value:
        """One of several closures by a number, which counts from the end where it is negative."""
        if not isinstance(index, OnnxTensor):
            return closures[int(index)]
        kind = TensorType(index.dtype, ())
        at = self._b.op("Reshape", index, (), type=kind)
        negative = self._b.op("Less", at, 0, type=TensorType(BOOL, ()))
        from_end = self._b.op("Add", at, len(closures), type=kind)
        return self._one_of(self._b.op("Where", negative, from_end, at, type=kind), closures, 0)

    def _one_of(self, at: OnnxTensor, closures: tuple[Value, ...], first: int) -> Value:
        """The closure at `at`, of those from number `first` on, found by halves."""
        if len(closures) == 1:
            return closures[0]
        half = len(closures) // 2
        low = self._one_of(at, closures[:half], first)
        high = self._one_of(at, closures[half:], first + half)
        return ClosureChoice(
            self._b.op("Less", at, first + half, type=TensorType(BOOL, ())), low, high
        )


def partial(inputs: Sequence[Value]) -> Closure:
    """A function with more of its first arguments."""
    function = inputs[0]
    if not isinstance(function, Closure):
        raise ValueError("Partial of something that is no function")
    return Closure(function.function, (*function.bound, *inputs[1:]))
