"""Calls of functions: inlined where they are known, an If or a Loop where only the run time tells what is called.

MindSpore writes control flow as functions that end in a call of the next one: the branches of an `if` both call what
comes behind it, a loop's body calls the loop's header again, `break` and `return` call what comes behind the loop or
nothing. So a piece of a graph is lowered to its *exits* (exits.py). A function that only one place calls is lowered
there. One that several call is an exit of each, and is lowered once, where they come together; likewise what lies
behind a loop is an exit of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..mindir.graph import Graph, Model, TensorType, ValueType
from .builder import Builder, Tensor, Value
from .call_graph import CallGraph
from .exits import RETURN, Branch, Exits, Join, Untaken
from .live import raising
from .loops import Loop
from .memory import Memory
from .places import Kinds, Numbers, Place
from .trees import Choice, Closure, identical, leaves, rebuilt
from .variables import Variable

_BOOL = np.dtype(np.bool_)
_MAX_DEPTH = 30  # If inside If inside If: protobuf reads no more than 100 messages inside each other, and each is three
_DEEP_ENOUGH = 6  # what lies behind so many branches is lowered outside of them
Trace = Callable[[Graph, dict[str, Value], Place], Exits]


class Calls:
    """The calls of one model while it is being lowered; `trace` lowers one graph."""

    def __init__(self, b: Builder, model: Model, memory: Memory, trace: Trace) -> None:
        self.b, self.model, self.memory, self.trace = b, model, memory, trace
        self.graph = CallGraph(model)
        self.raising = raising(model)
        self.numbers = Numbers()
        self.depth = 0
        self.active: list[str] = []  # the functions being lowered, outermost first

    def value(self, callee: Value, arguments: Sequence[Value], kind: ValueType) -> Value:
        """What a call gives where its result is used in the caller."""
        result, = self.frame(lambda place: self.tail(callee, arguments, place), kind)
        return result

    def frame(self, trace: Callable[[Place], Exits], kind: ValueType) -> tuple[Value]:
        """Lower what `trace` does to its end, wherever it leads; returns the one result."""
        place = Place(kind)
        exits = self._settled(trace(place), place)
        result, self.memory.variables.all = exits.options[RETURN]
        return result  # type: ignore[no-any-return]

    def returned(self, value: Value) -> Exits:
        """The exit of a graph that ends in a value."""
        return Exits({RETURN: ((value,), self.memory.variables.all)}, self.numbers[RETURN])

    def tail(self, callee: Value, arguments: Sequence[Value], place: Place) -> Exits:
        """Where a call at the end of a function leads."""
        if isinstance(callee, Choice):
            return self._joined(callee.condition, place, lambda inner: self.tail(callee.yes, arguments, inner),
                                lambda inner: self.tail(callee.no, arguments, inner))
        if not isinstance(callee, Closure):
            raise ValueError("calls something that is no function")
        name, values = callee.function, (*callee.bound, *arguments)
        if self._comes_later(name, place):
            return Exits({name: (values, self.memory.variables.all)}, self.numbers[name])
        return self._entered(name, values, place)

    def _comes_later(self, name: str, place: Place) -> bool:
        """Whether a function is lowered elsewhere: as a loop's next round, behind a loop, where ways come together."""
        if name in place.headers or (place.branches and self.graph.shared(name)) or place.branches == _DEEP_ENOUGH:
            return True
        return bool(place.headers) and not self.graph.reaches(name, place.headers[-1], place.headers[:-1])

    def _entered(self, name: str, values: tuple[Value, ...], place: Place) -> Exits:
        graph = self.model.functions.get(name)
        if graph is None:
            raise ValueError(f"calls '{name}', which the file does not hold")
        if len(values) != len(graph.inputs):
            raise ValueError(f"calls {graph.name} with {len(values)} arguments, expected {len(graph.inputs)}")
        if name in self.active:
            raise ValueError(f"calls {graph.name}, inside which it lies, before that function's end: only loops, "
                             f"which do so at the end, are supported")
        self.active.append(name)
        try:
            if self.graph.reaches(name, name, place.headers):
                return self._looped(graph, values, place)
            return self._traced(graph, values, place)
        finally:
            self.active.pop()

    def _traced(self, graph: Graph, values: tuple[Value, ...], place: Place) -> Exits:
        return self.trace(graph, {i.key: value for i, value in zip(graph.inputs, values, strict=True)}, place)

    def _looped(self, graph: Graph, values: tuple[Value, ...], place: Place) -> Exits:
        kinds = self._kinds(place)
        loop = Loop(self.b, graph.name, self.numbers, (values, self.memory.variables.all), kinds.get(graph.name))

        def body(payload: Value) -> Exits:
            bound, self.memory.variables.all = payload
            inner = replace(place, headers=(*place.headers, graph.name), branches=0,
                            untaken={**place.untaken, graph.name: leaves(payload)})
            return self._settled(self._traced(graph, bound, inner), inner)

        with self._scope():
            exits = loop.run(body)
        return self._settled(exits, place)

    def _settled(self, exits: Exits, place: Place) -> Exits:
        """Go on with the exits that are lowered here, each when nothing leads to it any more."""
        while later := [name for name in exits.options if name != RETURN and not self._comes_later(name, place)]:
            first = next((name for name in later if not any(
                self.graph.reaches(other, name, place.headers) for other in later if other != name)), later[0])
            exits = self._continued(exits, first, place)
        return exits

    def _continued(self, exits: Exits, name: str, place: Place) -> Exits:
        rest = {option: payload for option, payload in exits.options.items() if option != name}
        arguments, variables = exits.options[name]

        def go_on(inner: Place) -> Exits:
            self.memory.variables.all = variables
            return self._entered(name, arguments, inner)

        if not rest:
            return go_on(place)
        taken = self.numbers[next(iter(rest))] if len(rest) == 1 else exits.taken
        condition = self.b.op("Equal", exits.taken, self.numbers[name], type=TensorType(_BOOL, ()))
        return self._joined(condition, place, go_on, lambda inner: Exits(rest, taken))

    def _joined(self, condition: Tensor, place: Place, yes: Callable[[Place], Exits],
                no: Callable[[Place], Exits]) -> Exits:
        """The exits of two branches, of which a condition picks one."""
        inner = replace(place, branches=place.branches + 1)
        first, second = self._branch(yes, inner), self._branch(no, inner)
        first, second = self._read(first, second), self._read(second, first)
        return Join(self.b, first, second, self._kinds(place), Untaken(place.untaken)).exits(condition)

    def _read(self, branch: Branch, other: Branch) -> Branch:
        """A branch with the values of the parameters that it hands on where the other one hands on something else."""
        options = dict(branch.exits.options)
        for name in options.keys() & other.exits.options.keys():
            values, (_, parameters) = leaves(other.exits.options[name]), options[name]
            now = dict(zip(self.memory.variables.keys, parameters, strict=True))
            own = leaves(options[name])
            if now and len(own) == len(values):
                options[name] = rebuilt(options[name], iter([
                    now[leaf.key] if isinstance(leaf, Variable) and not identical(leaf, value) else leaf
                    for leaf, value in zip(own, values, strict=True)]))
        return replace(branch, exits=replace(branch.exits, options=options))

    def _branch(self, lower: Callable[[Place], Exits], place: Place) -> Branch:
        nodes: list[Any] = []
        with self._scope(), self.b.inside(nodes):
            return Branch(nodes, lower(place))

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """What is written inside is forgotten outside, but for what exits hand on."""
        if self.depth == _MAX_DEPTH:
            raise ValueError(f"branches and loops lie more than {_MAX_DEPTH} deep inside each other")
        variables, overwritten = self.memory.variables.all, self.memory.overwritten
        self.memory.overwritten = overwritten.copy()
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self.memory.variables.all, self.memory.overwritten = variables, overwritten

    def _kinds(self, place: Place) -> Kinds:
        return Kinds(self.model, place.returns, self.memory.variables.types)

    def switch(self, inputs: Sequence[Value]) -> Value:
        """One of two values, usually closures, by a condition; the other where one only raises an error.

        What a check in the network would refuse, onnxruntime refuses at the operator that the check is for.
        """
        condition, yes, no = self.memory.read(tuple(inputs[:3]))
        if not isinstance(condition, Tensor):
            return yes if bool(condition) else no
        for one, other in ((yes, no), (no, yes)):
            if isinstance(one, Closure) and one.function in self.raising:
                return other
        if condition.shape != ():
            condition = self.b.op("Reshape", condition, (), type=TensorType(condition.dtype, ()))
        choice = Choice(self.b.cast(condition, _BOOL), inputs[1], inputs[2])
        if isinstance(yes, (Closure, Choice)) and isinstance(no, (Closure, Choice)):
            return choice
        return self._chosen(choice)

    def _chosen(self, choice: Choice) -> Value:
        exits = self._joined(choice.condition, Place(), lambda _: self.returned(choice.yes),
                             lambda _: self.returned(choice.no))
        return exits.options[RETURN][0][0]

    def switch_layer(self, index: Value, closures: tuple[Value, ...]) -> Value:
        """One of several closures by a number, which counts from the end where it is negative."""
        if not isinstance(index, Tensor):
            return closures[int(index)]
        kind, count = TensorType(index.dtype, ()), len(closures)
        at = self.b.op("Reshape", index, (), type=kind)
        negative = self.b.op("Less", at, 0, type=TensorType(_BOOL, ()))
        return self._one_of(self.b.op("Where", negative, self.b.op("Add", at, count, type=kind), at, type=kind),
                            closures, 0)

    def _one_of(self, at: Tensor, closures: tuple[Value, ...], first: int) -> Value:
        """The closure at `at`, of those from number `first` on, found by halves."""
        if len(closures) == 1:
            return closures[0]
        half = len(closures) // 2
        low, high = self._one_of(at, closures[:half], first), self._one_of(at, closures[half:], first + half)
        return Choice(self.b.op("Less", at, first + half, type=TensorType(_BOOL, ())), low, high)


def partial(inputs: Sequence[Value]) -> Closure:
    """A function with more of its first arguments."""
    function = inputs[0]
    if not isinstance(function, Closure):
        raise ValueError("Partial of something that is no function")
    return Closure(function.function, (*function.bound, *inputs[1:]))
