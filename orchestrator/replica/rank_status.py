"""Status of ranks: one snapshot, for people and monitors."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec


class RankStatus(msgspec.Struct, frozen=True):
    """One rank; `pid` is the process that serves it, None while it is being replaced.

    `weights_version` is how many updates of weights are in effect for the requests that the rank is
    given now. `version` is the model's; `serving`: it takes requests, and neither starts nor ends.
    `run_seconds` is how long the process has run requests so far, and `collective_seconds` how long
    of that it was in collectives. `waits_for` is why no host has a place for the rank now.
    `collectives` is what carries tensors between its ranks, and why; "" before the rank is ready.
    """

    model: str
    replica: int
    rank: int
    pid: int | None
    host: str
    device: int
    state: str
    stage: str
    restarts: int
    last_error: str
    weights_version: int
    version: int = 1
    run_seconds: float = 0.0
    collective_seconds: float = 0.0
    serving: bool = True
    waits_for: str = ""
    collectives: str = ""


class ReplicaOutage(msgspec.Struct, frozen=True):
    """A time in which a replica did not answer, as its ranks had failed with `error`.

    `time` is its begin in seconds since 1970. It took `seconds`; None: it goes on.
    """

    model: str
    version: int
    replica: int
    time: float
    error: str
    seconds: float | None


class StepStatus(msgspec.Struct, frozen=True):
    """One step of a chain: the model, and the version of it that answers now."""

    model: str
    version: int


class ChainStatus(msgspec.Struct, frozen=True):
    """One version of a chain, which answers as long as the models of all its steps do."""

    model: str
    version: int
    steps: tuple[StepStatus, ...]


class DecoderStatus(msgspec.Struct, frozen=True):
    """One version of a model that generates text.

    `running` sequences have slots, of `slots` in all replicas; `waiting` ones have none yet. A slot
    holds at most `context` tokens, of which `tokens` are held now, and takes `slot_bytes` bytes on
    each rank when it is full. `generated` counts tokens since the start, `steps` the steps.
    `inexact` says why the bits of a text may depend on what runs beside it; "" where they do not.
    """

    model: str
    version: int
    running: int
    waiting: int
    slots: int
    context: int
    tokens: int
    slot_bytes: int
    generated: int
    steps: int
    inexact: str


class Status(msgspec.Struct, frozen=True):
    """State of all models: `starts` counts the starts of replicas, `queue_depth` waiting requests.

    `state` is the first of these that is so, for the versions of models that answer requests
    without a version. stopped: some model has no replica left; draining: no
    more requests are taken; starting, restarting: some replica is; degraded: some replica is not
    started again, and others of its model answer; ready.
    """

    state: str
    starts: int
    queue_depth: int
    ranks: tuple[RankStatus, ...]
    outages: tuple[ReplicaOutage, ...] = ()
    """The last ones of each replica, by their begin."""
    chains: tuple[ChainStatus, ...] = ()
    decoders: tuple[DecoderStatus, ...] = ()

    @property
    def epoch(self) -> int:
        """The old name of `starts`."""
        warnings.warn(
            "Status.epoch is now Status.starts: it counts starts of replicas.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.starts

    def to_dict(self) -> dict[str, Any]:
        """The status for JSON; `epoch` is the old key of `starts`, and has the same value."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {**found, "epoch": self.starts}
