"""Origins of values: a digest of the computation from weights and inputs to a collective's
operands.

The digest covers nodes, constants and weights from the operands back to the results of earlier
collectives, whatever their names. Two members of a group with equal digests put the same operand
into the collective whenever their inputs are equal. Results that members of a group have in common
(AllReduce, AllGather, Broadcast) count as equal, all others from other ranks as different.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TypeAlias

import msgspec
from onnx import GraphProto, NodeProto, TensorProto

from ...comm.collective_call import ONE_WAY, Kind
from ...comm.digest import blake2b
from ...compiler.onnx_graph.constant_folding import RANDOM
from ...compiler.onnx_graph.external import external_place
from .content_sample import ContentSampler
from .plan import Block, BranchStep, CollectiveStep, LoopStep, Origin, Plan, Segment, Step

_COMMON = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.BROADCAST)

Values: TypeAlias = "MutableMapping[str, Origin]"


def origins(
    plan: Plan, rank: int, memory: Mapping[str, memoryview], whole: bool = False
) -> tuple[Origin, ...]:
    """The origins of the operands of each of `plan.collectives`.

    Empty where no two ranks have a collective in common. A sample of each weight is read, or with
    `whole` every byte. The plain text of an encrypted model is in `memory`.
    """
    if all(step.call.kind in ONE_WAY or step.call.group.size == 1 for step in plan.collectives):
        return ()
    with ContentSampler(plan.folder, memory, whole) as sampler:
        tracer = _Tracer(rank, sampler)
        values = tracer.given(plan)
        last = max(n for n, step in enumerate(plan.steps) if not isinstance(step, Segment))
        tracer.steps(plan.steps if plan.states else plan.steps[: last + 1], values)
        # states may differ from rank to rank, as the carried values of a loop may
        tracer.close(0, [tracer.origin(state.result, values) for state in plan.states])
    return tuple(tracer.found)


class _Tracer:
    """The computation of origins along a plan; `found` has those of the collectives so far."""

    def __init__(self, rank: int, sampler: ContentSampler) -> None:
        self._rank = rank
        self._sampler = sampler
        self._common: Counter[tuple[int, ...]] = Counter()
        self._tensors: dict[tuple[str, int], Origin] = {}
        self._unknown = 0
        self.found: list[Origin] = []

    def given(self, plan: Plan) -> dict[str, Origin]:
        """The origins of the values with which a plan begins."""
        values = {name: self._tensor(tensor) for name, tensor in plan.constants.items()}
        for number, signature in enumerate(plan.inputs):
            kind = f"{signature.type.dtype} {signature.type.shape}"
            values[signature.value] = self._made("input", str(number), kind, of_inputs=True)
        for state in plan.states:
            initial = self._tensor(state.initial)
            values[state.value] = self._made("state", initial, of_inputs=True)
        return values

    def steps(self, steps: Iterable[Step], values: Values) -> None:
        """Add the results of the steps to `values`."""
        for step in steps:
            if isinstance(step, Segment):
                self._graph_nodes(step.model.graph, values)
            elif isinstance(step, CollectiveStep):
                self._exchange(step, values)
            elif isinstance(step, BranchStep):
                self._branch(step, values)
            else:
                self._repeat(step, values)

    def close(self, first: int, results: Sequence[Origin]) -> None:
        """Make the collectives from number `first` on depend on `results`, which the next round
        takes.
        """
        if results:
            around = self._made(*results)
            self.found[first:] = [
                msgspec.structs.replace(one, digest=self._made(one, around).digest)
                for one in self.found[first:]
            ]

    def origin(self, name: str, values: Mapping[str, Origin]) -> Origin:
        """The origin of a value; a value that nothing makes is different from all others."""
        return (
            values[name] if name in values else self._made("absent") if not name else self._other()
        )

    def _exchange(self, step: CollectiveStep, values: Values) -> None:
        self.found.append(
            self._made("operands", *(self.origin(name, values) for name in step.inputs))
        )
        ranks = step.call.group.ranks
        if step.call.kind in _COMMON:
            source = ("common", str(ranks), str(self._common[ranks]))
            self._common[ranks] += 1
        else:
            source = ("own", str(self._rank), str(len(self.found)))
        for number, name in enumerate(step.outputs):
            values[name] = self._made(*source, str(number), of_inputs=True)

    def _branch(self, step: BranchStep, values: Values) -> None:
        condition = self.origin(step.condition, values)
        yes, no = (self._block(block, values) for block in step.blocks)
        for name, one, other in zip(step.outputs, yes, no, strict=True):
            values[name] = self._made("branch", condition, one, other)

    def _repeat(self, step: LoopStep, values: Values) -> None:
        first = len(self.found)
        begin = self._made(
            *(self.origin(name, values) for name in (step.count, step.condition, *step.initial))
        )
        for number, name in enumerate(step.body.arguments):
            values[name] = self._made("argument", str(number), begin)
        results = self._block(step.body, values)
        self.close(first, results)
        made = self._made("loop", begin, *results)
        for number, name in enumerate(step.outputs):
            values[name] = self._made(str(number), made)

    def _block(self, block: Block, values: Values) -> list[Origin]:
        self.steps(block.steps, values)
        return [self.origin(name, values) for name in block.results]

    def _graph_nodes(self, graph: GraphProto, values: Values) -> None:
        for tensor in graph.initializer:
            values[tensor.name] = self._tensor(tensor)
        for node in graph.node:
            self._node(node, values)

    def _node(self, node: NodeProto, values: Values) -> None:
        parts: list[str | bytes | Origin] = [node.domain, node.op_type]
        parts += [str(self._rank)] if node.op_type in RANDOM else []
        for attribute in sorted(node.attribute, key=lambda one: str(one.name)):
            graphs = [*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs]
            parts += [
                attribute.name,
                *(one for graph in graphs for one in self._subgraph(graph, values)),
            ]
            parts += [] if graphs else [attribute.SerializeToString()]
        parts += [self.origin(name, values) for name in node.input]
        if len(node.output) == 1:
            values[node.output[0]] = self._made(*parts)
            return
        made = self._made(*parts)
        for number, name in enumerate(node.output):
            values[name] = self._made(str(number), made)

    def _subgraph(self, graph: GraphProto, values: Values) -> list[Origin]:
        """The origins of the results of a branch or body without collectives."""
        inner = ChainMap({}, values)
        for number, info in enumerate(graph.input):
            inner[info.name] = self._made("argument", str(number))
        self._graph_nodes(graph, inner)
        return [self.origin(info.name, inner) for info in graph.output]

    def _tensor(self, tensor: TensorProto) -> Origin:
        """The origin of a constant; one in another file is read once, however many segments take
        it.
        """
        try:
            if tensor.data_location != TensorProto.EXTERNAL:
                return self._sampled(tensor)
            place = external_place(tensor)
            if place not in self._tensors:
                self._tensors[place] = self._sampled(tensor)
            return self._tensors[place]
        except (OSError, ValueError, TypeError, KeyError):  # loading the tensor raises the error
            return self._other()

    def _sampled(self, tensor: TensorProto) -> Origin:
        digest, telling = self._sampler.sample(tensor)
        return Origin(digest, (tensor.name,) if telling else ())

    def _other(self) -> Origin:
        self._unknown += 1
        return self._made("unknown", str(self._rank), str(self._unknown))

    def _made(self, *parts: str | bytes | Origin, of_inputs: bool = False) -> Origin:
        """The origin of a value that is computed from all of these, in this order."""
        digest, names = blake2b(digest_size=16), dict[str, None]()
        for part in parts:
            if isinstance(part, Origin):
                names.update(dict.fromkeys(part.weights))
                of_inputs = of_inputs or part.of_inputs
                part = part.digest
            elif isinstance(part, str):
                part = part.encode()
            digest.update(len(part).to_bytes(4, "little"))
            digest.update(part)
        return Origin(digest.digest(), tuple(names)[:3], of_inputs)
