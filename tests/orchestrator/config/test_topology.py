from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh import Rank, RankTable, UsageError
from rankmesh.comm.job.placement import RankSpec
from rankmesh.comm.job.shard import Shards
from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.orchestrator.config.topology import (
    ModelFiles,
    ReplicaPlan,
    plan_beside,
    plan_replicas,
)
from rankmesh.rank_tables.server import Device, Server

pytestmark = pytest.mark.pure

SLICED, WHOLE = "m_rank{rank}.mindir", "m.onnx"


def test_ranks_that_no_host_has_are_refused_before_they_are_planned() -> None:
    files = ModelFiles(ModelSettings(WHOLE, ranks=60_000, replicas=60_000), Shards(WHOLE, 1))
    with pytest.raises(UsageError, match="ranks in all: got 3600000000, expected at most 65536"):
        plan_replicas([files], "", ())


def table(*servers: list[int]) -> RankTable:
    """One server per list of device ids; ranks count through them."""
    rank, made = 0, []
    for number, devices in enumerate(servers):
        made.append(
            Server(
                f"10.0.0.{number + 1}",
                tuple(
                    Device(rank + i, device, f"10.1.{number}.{device}")
                    for i, device in enumerate(devices)
                ),
            )
        )
        rank += len(devices)
    return RankTable(tuple(made))


def found(
    path: str = SLICED,
    count: int = 2,
    ranks: RankTable | None = None,
    free: tuple[int, ...] = (),
    **settings: Any,
) -> ModelFiles:
    return ModelFiles(
        ModelSettings(path, rank_table=ranks and "t.json", **settings),
        Shards(path, count if "{rank}" in path else 1),
        ranks,
        free,
    )


def planned(*models: ModelFiles, cores: int = 8) -> list[tuple[int, list[int], list[int]]]:
    """Per group: replica, devices, number of cores."""
    return [
        (
            group.replica,
            [spec.rank.device for spec in group.ranks],
            [len(spec.cores) for spec in group.ranks],
        )
        for group in plan_replicas(models, "here", range(cores))
    ]


def test_two_replicas_of_two_ranks() -> None:
    def spec(rank: int, device: int, *cores: int) -> RankSpec:
        return RankSpec(Rank(rank, 2, rank, 2, "here", device), cores, 2)

    assert plan_replicas([found(replicas=2)], "here", range(10, 18)) == [
        ReplicaPlan("m", 0, (spec(0, 0, 10, 11), spec(1, 1, 12, 13))),
        ReplicaPlan("m", 1, (spec(0, 2, 14, 15), spec(1, 3, 16, 17))),
    ]


@pytest.mark.parametrize(
    ("model", "groups"),
    [
        (found(), [[0, 1]]),
        (found(WHOLE), [[0]]),
        (found(WHOLE, ranks=table([6, 7])), [[6, 7]]),
        (found(WHOLE, ranks=table([6, 7]), replicas=2), [[6], [7]]),
        (found(WHOLE, devices=(3, 1)), [[3], [1]]),
        (found(devices=(3, 2, 1, 0)), [[3, 2], [1, 0]]),
        (found(ranks=table([4, 5, 6, 7])), [[4, 5], [6, 7]]),
        (found(ranks=table([4, 5]), devices=(4, 5)), [[4, 5]]),
        (found(free=(0, 1, 2), replicas=2), [[0, 1], [2, 0]]),
        (found(WHOLE, free=(5,), replicas=2), [[5], [5]]),
        (found(devices=(0, 0), free=(0,)), [[0, 0]]),
    ],
)
def test_what_is_not_said_is_found_from_files_table_and_devices(
    model: ModelFiles, groups: list[list[int]]
) -> None:
    assert [devices for _, devices, _ in planned(model)] == groups


def test_all_models_share_the_cores() -> None:
    assert planned(found(replicas=2), found(WHOLE, name="other", replicas=3), cores=15) == [
        (0, [0, 1], [2, 2]),
        (1, [2, 3], [2, 2]),
        (0, [0], [2]),
        (1, [1], [2]),
        (2, [2], [2]),
    ]


def test_ranks_are_pinned_where_their_threads_have_cores() -> None:
    def pinned(cores: int, **settings: Any) -> list[tuple[int, int]]:
        (group,) = plan_replicas([found(**settings)], "here", range(cores))
        return [(len(spec.cores), spec.threads) for spec in group.ranks]

    assert pinned(8) == [(4, 4), (4, 4)]
    assert pinned(8, threads=1) == [(4, 1), (4, 1)]
    assert pinned(2, threads=2) == [(0, 2), (0, 2)]
    assert pinned(1) == [(0, 1), (0, 1)]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            found(replicas=2, ranks=table([0, 1])),
            "model 'm': the rank table t.json has 2 places, and 2 x 2 ranks (replicas x ranks "
            "of each) are to run",
        ),
        (found(ranks=table([0, 1, 2])), "the rank table t.json has 3 places, and 1 x 2 ranks"),
        (found(ranks=table([0])), "the rank table t.json has 1 place, and 1 x 2 ranks"),
        (
            found(WHOLE, ranks=table([0, 1, 2]), replicas=2),
            "the rank table t.json has 3 places, and 2 x 1 rank",
        ),
        (found(replicas=3, devices=(0, 1)), "devices [0, 1] has 2 places, and 3 x 2 ranks"),
        (
            found(ranks=table([0, 1]), devices=(0, 1, 2, 3)),
            "devices [0, 1, 2, 3] has 4 places, and 1 x 2 ranks",
        ),
        (
            found(ranks=table([4, 5]), devices=(5, 4)),
            "devices [5, 4] contradict the rank table t.json, which has [4, 5].",
        ),
        (found(ranks=table([0], [0])), "several hosts (10.0.0.1: ranks [0]; 10.0.0.2: ranks [1])"),
        (found(free=(0,)), "a replica of 2 ranks needs 2 devices, and this host has 1."),
    ],
)
def test_contradictions_are_named(model: ModelFiles, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        planned(model)


def test_ranks_elsewhere_need_no_devices_of_this_host_and_have_tables_of_several() -> None:
    plans, _, _ = plan_beside([found(free=(0,)), found(ranks=table([0], [0]))], [], elsewhere=True)
    assert [len(plan.ranks) for plan in plans] == [2, 2]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(1, 40),
)
def test_every_rank_is_planned_once_and_no_core_twice(
    sizes: list[tuple[int, int]], cores: int
) -> None:
    models = [
        found(name=str(number), count=ranks, replicas=replicas)
        for number, (ranks, replicas) in enumerate(sizes)
    ]
    groups = plan_replicas(models, "here", range(cores))
    assert [(group.label, group.replica, len(group.ranks)) for group in groups] == [
        (str(number), replica, ranks)
        for number, (ranks, replicas) in enumerate(sizes)
        for replica in range(replicas)
    ]
    used = [core for group in groups for spec in group.ranks for core in spec.cores]
    assert len(used) == len(set(used)) and set(used) <= set(range(cores))
    assert all(spec.threads == max(1, len(spec.cores)) for group in groups for spec in group.ranks)
    assert len({len(spec.cores) for group in groups for spec in group.ranks}) == 1
