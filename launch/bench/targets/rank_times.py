"""Times of ranks: adds what the page of a Rankmesh server tells to an observation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....orchestrator.server.page.overview import ModelOverview, Overview, RankOverview
from .observation import Observation, Setup
from .target import BenchedModel


def with_ranks(found: Observation, overview: Overview, model: BenchedModel) -> Observation:
    """An observation with the times of the ranks of a model, and those of idle processors."""
    ranks = list(_ranks(overview, model))
    return replace(
        found,
        ranks=sum(one.run_seconds for one in ranks),
        collectives=sum(one.collective_seconds for one in ranks),
        processors=sum(one.processor_seconds for one in ranks),
        idle=overview.idle_seconds,
    )


def setup_of(overview: Overview, model: BenchedModel) -> Setup:
    """How a model is served."""
    versions = list(_versions(overview, model))
    replicas = sum(len(one.replicas) for one in versions) or 1  # a chain has none of its own
    return Setup(
        replicas,
        len(list(_ranks(overview, model))) // replicas,
        overview.processors,
        any(one.batching for one in versions),
        model.batchable,
    )


def _versions(overview: Overview, model: BenchedModel) -> Iterator[ModelOverview]:
    """The version of the model that is asked for, or all."""
    for one in overview.models:
        if one.name == model.name and model.version in ("", one.version):
            yield one


def _ranks(overview: Overview, model: BenchedModel) -> Iterator[RankOverview]:
    for version in _versions(overview, model):
        for replica in version.replicas:
            yield from replica.ranks
