"""Target: the server or orchestrator that a bench sends requests to, as the load sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ....comm.arrays import Array
from ....comm.errors import UsageError
from ....comm.serving.tensor_spec import TensorSpec
from .observation import Observation, Setup
from .reply import Reply


@dataclass(frozen=True, slots=True)
class BenchedModel:
    """One version of a model, with its inputs and outputs. `version` is empty for the current."""

    name: str
    version: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def batchable(self) -> bool:
        """Whether all inputs and outputs leave their first dimension open."""
        specs = (*self.inputs, *self.outputs)
        return all(one.shape is None or one.shape[:1] == (-1,) for one in specs)


class BenchClient(Protocol):
    """One client; it sends one request at a time, and connects when it needs to."""

    async def ask(self, timeout: float) -> Reply:
        """Send the prepared request; its answer within `timeout` seconds. Raises RequestFailed."""

    async def close(self) -> None:
        """Close the connection."""


class Target(Protocol):
    """A model of a server or orchestrator."""

    model: BenchedModel
    protocol: str
    """How requests are sent."""

    async def setup(self) -> Setup:
        """How the model is served, as far as that is known."""

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        """Make the request that all connections send."""

    def connection(self) -> BenchClient:
        """A further client."""

    def outputs(self, reply: Reply) -> Mapping[str, Array]:
        """The outputs of an answer. Raises RequestFailed where it is none."""

    async def observe(self) -> Observation:
        """The counters of the target now."""

    async def close(self) -> None:
        """Close what the target itself has open."""


def chosen_model(wanted: str | None, found: Sequence[str]) -> str:
    """The model that is wanted, by default the only one. Raises UsageError."""
    if wanted is None and len(found) == 1:
        return found[0]
    names = ", ".join(found) or "none"
    if wanted is None:
        raise UsageError(f"expected one model, and there are {names}: choose with --model NAME.")
    if wanted not in found:
        raise UsageError(f"--model {wanted}: there is no such model, but {names}.")
    return wanted
