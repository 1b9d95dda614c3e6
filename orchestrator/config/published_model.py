"""Published model: the form in which clients see a model whose configuration differs from its file.

The configuration of a Triton repository may reshape tensors, and bound the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...comm.serving.tensor_spec import TensorSpec
from ...comm.serving.warmup import WarmupSample
from .chain_settings import ChainSettings
from .settings import ModelSettings, ServedSettings


@dataclass(frozen=True, slots=True)
class TensorForm:
    """The shape of a tensor for clients, and for the model (-1: any size, in both as often)."""

    shape: tuple[int, ...]
    model_shape: tuple[int, ...]

    @property
    def reshaped(self) -> bool:
        """Whether the two differ."""
        return self.shape != self.model_shape

    def for_model(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A client's shape as the model takes it."""
        return _converted(shape, self.shape, self.model_shape)

    def for_client(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape of the model as clients expect it."""
        return _converted(shape, self.model_shape, self.shape)


def _converted(
    shape: tuple[int, ...], given: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[int, ...]:
    """The form `wanted`, with the open sizes that `shape` has in the form `given`."""
    sizes = iter([size for size, form in zip(shape, given, strict=True) if form < 0])
    return tuple(next(sizes) if form < 0 else form for form in wanted)


@dataclass(frozen=True, slots=True)
class PriorityLevels:
    """Priorities of clients: 1 is the highest of `count`; a request without one has `default`."""

    count: int
    default: int

    @property
    def sound(self) -> bool:
        """Whether the default is one of the levels, if there are any."""
        return 0 < self.default <= self.count or not self.count

    def level(self, asked: int) -> int:
        """The level of a request; that of one which there is not is the default."""
        return asked if 0 < asked <= self.count else self.default


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model as clients see it: its tensors by name, in this order.

    `config` is a ModelConfig of Triton, serialized. `max_batch`: rows of a request, which are
    dimension 0 of all tensors; 0: no dimension counts rows.
    """

    platform: str
    inputs: Mapping[str, TensorForm]
    outputs: Mapping[str, TensorForm]
    max_batch: int
    config: bytes
    levels: PriorityLevels | None = None
    """None: any priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryModel(ModelSettings):
    """Settings of a model of a Triton repository; each rank runs `samples` before it is ready."""

    published: PublishedModel
    samples: tuple[WarmupSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryChain(ChainSettings):
    """Settings of an ensemble of a Triton repository.

    `tensors` are its inputs and outputs as the configuration has them; `number` is its version.
    """

    published: PublishedModel
    tensors: tuple[TensorSpec, ...]
    number: int

    @property
    def version(self) -> int | None:
        """The number of the version."""
        return self.number


def published_form(settings: ServedSettings) -> PublishedModel | None:
    """The form in which clients see a model; None: as its file has it."""
    if isinstance(settings, (RepositoryModel, RepositoryChain)):
        return settings.published
    return None
