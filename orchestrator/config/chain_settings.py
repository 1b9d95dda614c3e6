"""Settings of a chain: the models that a request passes, and how their tensors are connected."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .setting_checks import FORBID_OTHERS, SettingFault, check_count, check_seconds


@dataclass(frozen=True, slots=True)
class StepSettings:
    """One step of a chain: the model that runs, and the tensors of the chain that it takes and
    gives.

    - `model`: the name of a model, or of another chain.
    - `inputs`: by the name of an input of the model, the tensor that it gets; an input that is not
      listed gets the tensor of its own name.
    - `outputs`: by the name of an output of the model, the tensor that it becomes; then others are
      dropped. Without it every output becomes the tensor of its own name.
    - `version`: of the model; None: the current one.
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    model: str
    inputs: dict[str, str] | None = None
    outputs: dict[str, str] | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not self.model:
            raise SettingFault("model", "got an empty text, expected the name of a model.")
        if self.version is not None:
            check_count("version", self.version)


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """A chain: requests to it pass its steps, whose tensors stay in shared memory.

    A step runs as soon as its inputs are there, so steps may be listed in any order.

    - `name`: what requests call it; `steps`: each with settings, or only the name of a model.
    - `inputs`: the tensors that requests give, by default the inputs of the first step that no
      step gives; `outputs`: those that they get, by default the outputs of the last step.
    - `timeout`: in seconds for requests that name none, over all steps; None: no deadline.
    - `queue_limit`: how many requests may be under way.
    - `labels`: by the name of an output, a file with one label per line for its classes.
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    name: str
    steps: tuple[StepSettings | str, ...]
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    timeout: float | None = 60.0
    queue_limit: int = 1000
    labels: dict[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be, whatever the models."""
        if not self.name:
            raise SettingFault("name", "got an empty text, expected a name for the chain.")
        if not self.steps:
            raise SettingFault("steps", "got none, expected one or more.")
        if self.timeout is not None:
            check_seconds("timeout", self.timeout)
        check_count("queue_limit", self.queue_limit)

    @property
    def label(self) -> str:
        """The name by which requests call the chain."""
        return self.name

    @property
    def version(self) -> int | None:
        """None: a chain has the next number."""
        return None

    @property
    def links(self) -> tuple[StepSettings, ...]:
        """The steps, each with its settings."""
        return tuple(StepSettings(one) if isinstance(one, str) else one for one in self.steps)


def inner_first(chains: Sequence[ChainSettings], models: Collection[str]) -> list[ChainSettings]:
    """The chains, each behind those that are its steps.

    `models` has the names of all models, chains too. Raises SettingFault where a step is none of
    them, and where a chain contains itself.
    """
    named = {chain.name: chain for chain in chains}
    found: list[ChainSettings] = []

    def add(chain: ChainSettings, around: tuple[str, ...]) -> None:
        path = (*around, chain.name)
        if chain.name in around:
            raise SettingFault("steps", f"a chain contains itself: {' -> '.join(path)}.")
        for at, step in enumerate(chain.links, 1):
            if step.model not in models:
                raise SettingFault(
                    "steps",
                    f"step {at} of the chain '{chain.name}' is '{step.model}', expected one of "
                    f"{', '.join(sorted(models))}.",
                )
            if step.model in named and named[step.model] not in found:
                add(named[step.model], path)
        if chain not in found:
            found.append(chain)

    for chain in chains:
        add(chain, ())
    return found
