"""Bundles: one host where a replica fits, else the fewest."""

from __future__ import annotations

import pytest

from rankmesh.orchestrator.ray_agents.bundles import (
    RankNeeds,
    RayHost,
    ReplicaBundles,
    bundles_of,
)

pytestmark = pytest.mark.pure


def hosts(*cores: int, gpus: int = 0) -> list[RayHost]:
    return [RayHost(str(at), f"10.0.0.{at}", each, gpus) for at, each in enumerate(cores)]


@pytest.mark.parametrize(
    ("ranks", "threads", "cores", "expected"),
    [
        (4, 1, (2, 4), ReplicaBundles("STRICT_PACK", (4,))),
        (4, 2, (4, 4, 4), ReplicaBundles("PACK", (2, 2))),
        (5, 1, (2, 1, 3), ReplicaBundles("PACK", (3, 2))),
        (3, 1, (1, 1), ReplicaBundles("STRICT_PACK", (3,))),  # an autoscaler may have a host
        (2, 1, (), ReplicaBundles("STRICT_PACK", (2,))),
    ],
)
def test_a_replica_has_the_fewest_hosts(
    ranks: int, threads: int, cores: tuple[int, ...], expected: ReplicaBundles
) -> None:
    assert bundles_of(ranks, RankNeeds(threads, 0), hosts(*cores)) == expected


def test_gpus_count_as_cores_do() -> None:
    needs = RankNeeds(cores=1, gpus=1)
    assert bundles_of(4, needs, hosts(8, 8, gpus=2)) == ReplicaBundles("PACK", (2, 2))
    assert needs.bundle(2) == {"CPU": 2.0, "GPU": 2.0}
    assert RankNeeds(cores=3, gpus=0).bundle(2) == {"CPU": 6.0}
