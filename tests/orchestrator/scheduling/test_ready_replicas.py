"""The replica with the least to do, against a look at all of them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

from rankmesh.orchestrator.scheduling.ready_replicas import ReadyReplicas

pytestmark = pytest.mark.pure


@dataclass(eq=False)
class Replica:
    """The parts of InflightBatches that are looked at; a batch is as good as any other."""

    replica: int
    load: int | None = 0
    ahead: bool = False
    batch: object = None
    looks: int = 0

    def recall(self) -> object:
        self.looks += 1
        self.ahead = False
        return self.batch


def made(replicas: list[Replica]) -> ReadyReplicas:
    ready = ReadyReplicas()
    for replica in replicas:
        ready.add(cast(Any, replica))
    return ready


def first_of_all(replicas: list[Replica]) -> Replica | None:
    free = [one for one in replicas if one.load is not None]
    return min(free, key=lambda one: (one.load, one.replica), default=None)


@pytest.mark.parametrize("seed", range(20))
def test_the_replica_with_the_least_to_do_is_found_whatever_changes(seed: int) -> None:
    random = Random(seed)
    replicas = [Replica(number) for number in random.sample(range(12), 8)]
    ready = made(replicas)
    for _ in range(500):
        replica = random.choice(replicas)
        before, replica.load = replica.load, random.choice([None, 0, 0, 1, 2, 3])
        if replica.load is not None and (before is None or replica.load < before):
            ready.note(cast(Any, replica))  # what has more to do is found out
        if random.random() < 0.05:
            replicas.remove(replica)
            ready.remove(cast(Any, replica))
            replicas.append(Replica(replica.replica))  # another incarnation
            ready.add(cast(Any, replicas[-1]))
        assert ready.least_loaded() is first_of_all(replicas)
    assert [one.replica for one in ready.in_order] == sorted(one.replica for one in replicas)
    assert len(ready.in_order) == 8


class Watched(Replica):
    """Counts how often it is asked for its load."""

    def __getattribute__(self, name: str) -> Any:
        if name == "load":
            self.looks += 1
        return super().__getattribute__(name)


def test_what_is_kept_and_looked_at_grows_with_no_request() -> None:
    replicas: list[Replica] = [Watched(number) for number in range(3)]
    ready = made(replicas)
    for _ in range(1000):
        free = cast(Any, ready.least_loaded())
        free.load = 1
        assert ready.least_loaded() is not free
        free.load = 0
        ready.note(free)
    for replica in replicas:
        replica.load, replica.looks = None, 0
    assert ready.least_loaded() is None
    assert sum(one.looks for one in replicas) <= 6 * 2  # for a load of 0 and of 1 of each, twice


def test_only_what_was_given_ahead_is_recalled_and_the_first_of_it_first() -> None:
    replicas = [Replica(number, ahead=number in (5, 7), batch=number) for number in range(100)]
    ready = made(replicas)
    for number in (7, 3, 5):
        ready.note_given(cast(Any, replicas[number]))
    replicas[7].batch = None  # its rank has begun
    assert ready.recall() == 5
    assert ready.recall() is None
    assert sum(one.looks for one in replicas) == 2
