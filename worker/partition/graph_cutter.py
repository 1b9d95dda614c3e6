"""The cutter of one graph: a model's, a branch's or a loop body's nodes as steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from onnx import GraphProto, NodeProto, TensorProto

from ...comm.errors import ModelError
from ...compiler.element_types.value_types import TensorType
from ...compiler.model_file.loaded_model import LoadedModel
from ...compiler.onnx_graph.collective_nodes import DOMAIN, NO_GROUPS, Groups, call_of, node_label
from ...compiler.onnx_graph.collective_types import result_types, without_meaning
from ...compiler.onnx_graph.onnx_values import (
    belongs,
    captured,
    declared_types,
    needed,
    uses,
    with_own_names,
)
from ...compiler.onnx_graph.segment_model import segment_model, unknown_type
from .plan import Block, BranchStep, CollectiveStep, LoopStep, Segment, Step


class CutContext:
    """The state that all graphs of a model share while it is cut."""

    def __init__(
        self, loaded: LoadedModel, rank: int, world_size: int, groups: Groups = NO_GROUPS
    ) -> None:
        self.groups = groups
        self.loaded = loaded
        self.path = loaded.path
        self.rank = rank
        self.world_size = world_size
        self.model = loaded.model
        graph = self.model.graph
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.types = declared_types(graph)
        self.meaningless: set[str] = set()
        self.names = dict.fromkeys((*self.initializers, *(info.name for info in graph.input)), 0)
        self.names.update((name, 0) for node in graph.node for name in node.output)
        self.collectives = 0

    def type_of(self, name: str) -> TensorType:
        """The type of a value; ModelError where it is unknown."""
        if name not in self.types:
            raise unknown_type(self.model, name, self.path)
        return self.types[name]

    def add_initializer(self, name: str, tensor: TensorProto) -> None:
        """Add a constant of the graph to its initializers."""
        tensor.name = name
        self.initializers[name] = tensor
        self.types.update(declared_types(GraphProto(initializer=[tensor])))


class GraphCutter:
    """One graph while it is cut."""

    def __init__(self, cut: CutContext, graph: GraphProto) -> None:
        self.cut = cut
        self.graph = graph
        self.alias: dict[str, str] = {}
        self.captured = {name for node in graph.node for name in captured(node)}

    def steps(self, more: Sequence[str] = ()) -> tuple[list[Step], list[str]]:
        """The steps, and the names that the values of `more` and the graph's outputs have in
        them.
        """
        nodes = list(self._simplified())
        values = [
            self._resolve(name) for name in (*more, *(info.name for info in self.graph.output))
        ]
        for info, value in zip(self.graph.output, values[len(more) :], strict=True):
            if info.name in self.cut.types:
                self.cut.types.setdefault(value, self.cut.types[info.name])
        nodes = needed(nodes, values, DOMAIN)
        return [step for stretch in self._stretches(nodes, values) for step in stretch], values

    def _simplified(self) -> Iterator[NodeProto]:
        """The nodes without Constants, and without Identities that no branch or body sees."""
        for node in self.graph.node:
            op_type = node.op_type if not node.domain and len(node.output) == 1 else ""
            if (
                op_type == "Identity"
                and len(node.input) == 1
                and node.output[0] not in self.captured
            ):
                self.alias[node.output[0]] = self._resolve(node.input[0])
            elif op_type == "Constant" and [attribute.name for attribute in node.attribute] == [
                "value"
            ]:
                self.cut.add_initializer(node.output[0], node.attribute[0].t)
            else:
                if any(name in self.alias for name in node.input):
                    renamed = [self._resolve(name) for name in node.input]
                    del node.input[:]
                    node.input.extend(renamed)
                yield node

    def _resolve(self, name: str) -> str:
        return self.alias.get(name, name)

    def _stretches(
        self, nodes: Sequence[NodeProto], outputs: Sequence[str]
    ) -> Iterator[list[Step]]:
        """The steps in order; a segment gives out only values that later nodes or the outputs
        take.
        """
        remaining = Counter(name for node in nodes for name in uses(node))
        remaining.update(outputs)
        stretch: list[NodeProto] = []
        for node in nodes:
            spoiled = not self.cut.meaningless.isdisjoint(uses(node))
            if not belongs(node, DOMAIN):
                self.cut.meaningless.update(node.output if spoiled else ())
                stretch.append(node)
                continue
            yield self._segment(stretch, remaining)
            yield [self._exchange(node, spoiled) if node.domain == DOMAIN else self._control(node)]
            stretch = []
        yield self._segment(stretch, remaining)

    def _segment(self, nodes: Sequence[NodeProto], remaining: Counter[str]) -> list[Step]:
        for node in nodes:
            remaining.subtract(uses(node))
        if not nodes:
            return []
        made = list(dict.fromkeys(name for node in nodes for name in node.output if name))
        outputs = tuple(name for name in made if remaining[name] > 0)
        own = set(made)
        taken = [
            name
            for name in dict.fromkeys(name for node in nodes for name in uses(node))
            if name not in own
        ]
        inputs = tuple(name for name in taken if name not in self.cut.initializers)
        constants = [self.cut.initializers[name] for name in taken if name in self.cut.initializers]
        types = [self.cut.type_of(name) for name in inputs]
        model = segment_model(
            self.cut.model,
            nodes,
            list(zip(inputs, types, strict=True)),
            outputs,
            constants,
            self.cut.types,
            self.cut.path,
        )
        return [Segment(model, inputs, outputs)]

    def _exchange(self, node: NodeProto, spoiled: bool) -> CollectiveStep:
        cut = self.cut
        call = call_of(node, cut.collectives, cut.rank, cut.world_size, cut.path, cut.groups)
        cut.collectives += 1
        if without_meaning(call, cut.rank, spoiled):
            cut.meaningless.update(node.output)
        inputs = tuple(node.input)
        cut.types.update(
            zip(
                node.output,
                result_types(
                    node,
                    call,
                    cut.rank,
                    [cut.type_of(name) for name in inputs],
                    [cut.types.get(n) for n in node.output],
                    cut.path,
                ),
                strict=True,
            )
        )
        return CollectiveStep(call, inputs, tuple(node.output))

    def _control(self, node: NodeProto) -> BranchStep | LoopStep:
        """The step of an If or Loop that contains a collective: the plan runs it."""
        graphs = {attribute.name: attribute.g for attribute in node.attribute}
        if not node.domain and node.op_type == "If":
            self._require(node, {"then_branch", "else_branch"} <= graphs.keys())
            return self._branch(node, graphs["then_branch"], graphs["else_branch"])
        if not node.domain and node.op_type == "Loop":
            self._require(node, "body" in graphs)
            return self._repeat(node, graphs["body"])
        raise ModelError(
            f"{node_label(node, self.cut.path)}: contains a collective, which only If and Loop may "
            "contain: move it out."
        )

    def _branch(self, node: NodeProto, then: GraphProto, otherwise: GraphProto) -> BranchStep:
        yes, no = self._block(then), self._block(otherwise)
        self._require(
            node, len(node.input) == 1 and len(yes.results) == len(no.results) == len(node.output)
        )
        for output, one, other in zip(node.output, yes.results, no.results, strict=True):
            self._declare(output, self._common(node, one, other), spoiled={one, other})
        inputs = dict.fromkeys((node.input[0], *_taken(yes), *_taken(no)))
        return BranchStep(node.input[0], yes, no, tuple(inputs), tuple(node.output))

    def _repeat(self, node: NodeProto, graph: GraphProto) -> LoopStep:
        count, condition, *initial = [*node.input, *[""] * (2 - len(node.input))]
        self._require(
            node,
            len(graph.input) == len(initial) + 2
            and len(graph.output) == len(node.output) + 1
            and len(node.output) >= len(initial),
        )
        graph = with_own_names(graph, self.cut.names)
        for info, start in zip(graph.input[2:], initial, strict=True):
            self.cut.types.setdefault(info.name, TensorType(self.cut.type_of(start).dtype, None))
        body = self._block(graph, named=True)
        carried = len(initial)
        for output, start, end in zip(node.output, initial, body.results[1:], strict=False):
            self._declare(output, self._common(node, start, end), spoiled={start, end})
        for output, part in zip(node.output[carried:], body.results[1 + carried :], strict=True):
            kind = self.cut.type_of(part)
            shape = None if kind.shape is None else (-1, *kind.shape)
            self._declare(output, TensorType(kind.dtype, shape), spoiled={part})
        inputs = dict.fromkeys(filter(None, (count, condition, *initial, *_taken(body))))
        return LoopStep(count, condition, tuple(initial), body, tuple(inputs), tuple(node.output))

    def _block(self, graph: GraphProto, named: bool = False) -> Block:
        graph = graph if named else with_own_names(graph, self.cut.names)
        for name, kind in declared_types(graph).items():
            self.cut.types.setdefault(name, kind)
        self.cut.initializers.update({tensor.name: tensor for tensor in graph.initializer})
        steps, results = GraphCutter(self.cut, graph).steps()
        return Block(tuple(steps), tuple(info.name for info in graph.input), tuple(results))

    def _require(self, node: NodeProto, fits: bool) -> None:
        if not fits or not all(node.output):
            raise ModelError(
                f"{node_label(node, self.cut.path)}: its inputs and outputs do not fit those "
                "of its graphs, one has no name, or a graph is missing: the file is corrupt."
            )

    def _common(self, node: NodeProto, one: str, other: str) -> TensorType:
        """The type of a value that is one of two."""
        a, b = self.cut.type_of(one), self.cut.type_of(other)
        if a.dtype != b.dtype:
            raise ModelError(
                f"{node_label(node, self.cut.path)}: a result is {a.dtype} in one branch and "
                f"{b.dtype} in the other."
            )
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return TensorType(a.dtype, None)
        return TensorType(
            a.dtype, tuple(x if x == y else -1 for x, y in zip(a.shape, b.shape, strict=True))
        )

    def _declare(self, output: str, kind: TensorType, spoiled: set[str]) -> None:
        known = self.cut.types.get(output)
        if known is None or known.shape is None:
            self.cut.types[output] = kind
        if not self.cut.meaningless.isdisjoint(spoiled):
            self.cut.meaningless.add(output)


def _taken(block: Block) -> Iterator[str]:
    """The outer values that a block takes."""
    made = {*block.arguments, *(name for step in block.steps for name in step.outputs)}
    taken = (*(name for step in block.steps for name in step.inputs), *block.results)
    return (name for name in taken if name not in made)
