"""Plan of a chain: connects its steps by the names of tensors, and checks that they fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...comm.errors import UsageError
from ...comm.serving.tensor_spec import TensorSpec
from ..config.chain_settings import ChainSettings, StepSettings
from ..config.published_model import RepositoryChain
from .tensor_fit import fit, may_fit, shown

Specs = tuple[TensorSpec, ...]
_GIVEN = -1  # the source of the tensors that requests give


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """The inputs and outputs of the model of a step, as its clients see them. `max_batch`: rows,
    which are dimension 0 of all of them; 0: no dimension counts rows.
    """

    inputs: Specs
    outputs: Specs
    max_batch: int = 0


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step: `inputs` has by the model's names the tensors of the chain that it takes, `outputs`
    those that it gives, if a step or the caller takes them.
    """

    name: str
    """The step as errors name it."""

    model: str
    version: int | None
    inputs: dict[str, str]
    outputs: dict[str, str]


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """The steps of a chain and the tensors of its requests."""

    steps: tuple[PlannedStep, ...]
    inputs: Specs
    outputs: Specs
    uses: Mapping[str, int]
    """By tensor: how many steps take it, the caller counted like one."""

    takers: Mapping[str, tuple[int, ...]]
    """By tensor: the steps that take it, by their positions."""

    rowed: bool = False
    """Whether its inputs and outputs are declared to have rows along dimension 0."""

    def require_kept(self, chain: str, new: ChainPlan) -> None:
        """Raise UsageError where the same chain, planned anew for other versions of its models,
        would have other tensors: its requests go on by this plan.
        """
        for old, other in zip(self.steps, new.steps, strict=True):
            _require_equal(old.name, "inputs", old.inputs, other.inputs)
            _require_equal(old.name, "outputs", old.outputs, other.outputs)
        there = {one.name: one for one in (*new.inputs, *new.outputs)}
        for spec in (*self.inputs, *self.outputs):
            found = there[spec.name]
            if spec.dtype != found.dtype or not may_fit(spec.shape, found.shape):
                raise UsageError(
                    f"chain '{chain}': its tensor '{spec.name}' is {shown(spec)}, and would be "
                    f"{shown(found)}."
                )


class ChainPlanner:
    """Connects the steps of one chain by the names of their tensors."""

    def __init__(self, settings: ChainSettings, models: Sequence[ModelTensors]) -> None:
        """`models` has the tensors of each step's model. Raises UsageError, naming the step."""
        self._chain = settings
        self._models = models
        self._ensemble = settings if isinstance(settings, RepositoryChain) else None
        self._takes = [self._taken(at) for at in range(len(models))]
        self._gives = [self._given(at) for at in range(len(models))]
        self._sources = self._found_sources()

    def plan(self) -> ChainPlan:
        """The plan; UsageError names the step and the tensor that do not fit."""
        self._require_order()
        self._require_batches()
        inputs = tuple(self._input(name) for name in self._inputs)
        names = self._chain.outputs or tuple(self._gives[-1].values())
        outputs = tuple(self._output(name) for name in names)
        self._require_fits(inputs)
        takers: dict[str, tuple[int, ...]] = {name: () for name in self._sources}
        for at, taken in enumerate(self._takes):
            for tensor in dict.fromkeys(taken.values()):
                takers[tensor] = (*takers[tensor], at)
        uses = Counter({tensor: len(steps) for tensor, steps in takers.items()})
        uses.update(names)
        steps = tuple(self._step(at, uses) for at in range(len(self._models)))
        return ChainPlan(steps, inputs, outputs, uses, takers, self._rowed(_GIVEN))

    def _step(self, at: int, uses: Mapping[str, int]) -> PlannedStep:
        link = self._chain.links[at]
        outputs = {name: tensor for name, tensor in self._gives[at].items() if uses[tensor]}
        name = f"chain '{self._chain.name}', {self._name(at)}"
        return PlannedStep(name, link.model, link.version, self._takes[at], outputs)

    def _name(self, at: int) -> str:
        return f"step {at + 1} ('{self._chain.links[at].model}')"

    def _fault(self, at: int, text: str) -> UsageError:
        return UsageError(f"chain '{self._chain.name}', {self._name(at)}: {text}")

    @property
    def _inputs(self) -> list[str]:
        """The tensors that requests give."""
        return [name for name, source in self._sources.items() if source == _GIVEN]

    def _taken(self, at: int) -> dict[str, str]:
        """By input of a step's model, the tensor that it gets."""
        link, known = self._chain.links[at], [one.name for one in self._models[at].inputs]
        self._require_known(at, link.inputs, known, "input")
        return {name: (link.inputs or {}).get(name, name) for name in known}

    def _given(self, at: int) -> dict[str, str]:
        """By output of a step's model, the tensor that it becomes."""
        link, known = self._chain.links[at], [one.name for one in self._models[at].outputs]
        if link.outputs is None:
            return {name: name for name in known}
        self._require_known(at, link.outputs, known, "output")
        return dict(link.outputs)

    def _require_known(
        self, at: int, names: Mapping[str, str] | None, known: Sequence[str], kind: str
    ) -> None:
        for name in names or {}:
            if name not in known:
                raise self._fault(at, f"the model has no {kind} '{name}', but {list(known)}.")

    def _found_sources(self) -> dict[str, int]:
        """By tensor: the step that gives it, or that requests do."""
        sources: dict[str, int] = {}
        for at, given in enumerate(self._gives):
            for name, tensor in given.items():
                if tensor in sources:
                    raise self._twice(at, name, tensor, self._name(sources[tensor]))
                sources[tensor] = at
        declared = self._chain.inputs
        if declared is None:
            declared = tuple(name for name in self._takes[0].values() if name not in sources)
        for tensor in declared:
            if tensor in sources:
                at = sources[tensor]
                name = next(key for key, value in self._gives[at].items() if value == tensor)
                raise self._twice(at, name, tensor, "the caller")
        return dict.fromkeys(declared, _GIVEN) | sources

    def _twice(self, at: int, output: str, tensor: str, other: str) -> UsageError:
        return self._fault(
            at,
            f"its output '{output}' becomes the tensor '{tensor}', which {other} gives already. "
            f"Give it a name of its own: outputs: {{{output}: ...}}.",
        )

    def _require_order(self) -> None:
        """Each tensor has a source, and no steps wait for each other."""
        there = set(self._inputs)
        waiting = [*range(len(self._models))]
        while waiting:
            due = [at for at in waiting if there.issuperset(self._takes[at].values())]
            if not due:
                raise self._stuck(waiting, there)
            for at in due:
                there.update(self._gives[at].values())
            waiting = [at for at in waiting if at not in due]

    def _stuck(self, waiting: Sequence[int], there: set[str]) -> UsageError:
        for at in waiting:
            for name, tensor in self._takes[at].items():
                if tensor not in self._sources:
                    raise self._fault(
                        at,
                        f"its input '{name}' would get the tensor '{tensor}', which no step and no "
                        f"caller gives. Name another: inputs: {{{name}: ...}}; there are "
                        f"{sorted(self._sources)}.",
                    )
        missing = [
            f"{self._name(at)} for '{tensor}'"
            for at in waiting
            for tensor in self._takes[at].values()
            if tensor not in there
        ]
        return UsageError(
            f"chain '{self._chain.name}': its steps wait for each other: {', '.join(missing)}."
        )

    def _require_batches(self) -> None:
        """Each step takes as many rows as an ensemble does."""
        wanted = 0 if self._ensemble is None else self._ensemble.published.max_batch
        for at, model in enumerate(self._models):
            if 0 < model.max_batch < wanted:
                raise self._fault(
                    at,
                    f"its max_batch_size is {model.max_batch}, and that of the ensemble {wanted}: "
                    "expected as much or more.",
                )

    def _rowed(self, source: int) -> bool:
        """Whether the tensors of a step, or of requests, are declared to have rows."""
        if source != _GIVEN:
            return self._models[source].max_batch > 0
        return self._ensemble is not None and self._ensemble.published.max_batch > 0

    def _declared(self, tensor: str) -> TensorSpec | None:
        """An input or output as the configuration of an ensemble has it; None where there is
        none.
        """
        tensors = () if self._ensemble is None else self._ensemble.tensors
        return next((one for one in tensors if one.name == tensor), None)

    def _input(self, tensor: str) -> TensorSpec:
        """An input of the chain: as it is declared, or as the first step that takes it has it."""
        for at, taken in enumerate(self._takes):
            for name, wanted in taken.items():
                if wanted == tensor:
                    first = _renamed(_named(self._models[at].inputs, name), tensor)
                    return self._declared(tensor) or first
        raise UsageError(f"chain '{self._chain.name}': no step takes its input '{tensor}'.")

    def _output(self, tensor: str) -> TensorSpec:
        at = self._sources.get(tensor, _GIVEN)
        if at == _GIVEN:
            raise UsageError(
                f"chain '{self._chain.name}': no step gives its output '{tensor}'; they give "
                f"{sorted(name for name, source in self._sources.items() if source != _GIVEN)}."
            )
        found, declared = self._source_spec(tensor), self._declared(tensor)
        if declared is not None and not fit(found, self._rowed(at), declared, self._rowed(_GIVEN)):
            raise self._fault(
                at,
                f"its tensor '{tensor}' is {shown(found)}, and config.pbtxt of the ensemble has "
                f"{shown(declared)}.",
            )
        return declared or found

    def _source_spec(self, tensor: str) -> TensorSpec:
        at = self._sources[tensor]
        name = next(name for name, given in self._gives[at].items() if given == tensor)
        return _renamed(_named(self._models[at].outputs, name), tensor)

    def _require_fits(self, inputs: Specs) -> None:
        """Each step takes its tensors in the datatype, and possibly in the shape, that they
        have.
        """
        given = {spec.name: spec for spec in inputs}
        for at, taken in enumerate(self._takes):
            for name, tensor in taken.items():
                wanted = _named(self._models[at].inputs, name)
                found = given.get(tensor) or self._source_spec(tensor)
                rowed = self._rowed(self._sources[tensor])
                if not fit(found, rowed, wanted, self._rowed(at)):
                    raise self._fault(
                        at,
                        f"its input '{name}' is {shown(wanted)}, and the tensor '{tensor}' is "
                        f"{shown(found)}.",
                    )


def step_models(settings: ChainSettings) -> tuple[tuple[str, int | None], ...]:
    """The models of a chain's steps, each once, with the versions that steps name."""
    links: tuple[StepSettings, ...] = settings.links
    return tuple(dict.fromkeys((one.model, one.version) for one in links))


def _require_equal(step: str, kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    if old != new:
        raise UsageError(f"{step}: its {kind} are {[*old]}, and would be {[*new]}.")


def _named(specs: Specs, name: str) -> TensorSpec:
    return next(one for one in specs if one.name == name)


def _renamed(spec: TensorSpec, name: str) -> TensorSpec:
    return TensorSpec(name, spec.dtype, spec.shape)
