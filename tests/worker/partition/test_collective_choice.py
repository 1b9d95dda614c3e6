"""Which collectives ranks choose once they know each other's shards and devices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.device_choice import HOST, DevicePlace
from rankmesh.comm.collectives.registry import ON_ONE_HOST, BackendChoice
from rankmesh.comm.errors import UsageError
from rankmesh.worker.partition.collective_choice import agreed_choice, choice_by_devices
from rankmesh.worker.partition.fingerprint import Fingerprint, Operand, ShardCollective

pytestmark = pytest.mark.pure

GPUS = [DevicePlace("gpu a", "nccl"), DevicePlace("gpu b", "nccl")]
BETWEEN_HOSTS = BackendChoice("hierarchical", "the ranks are on several hosts")
FOUR = Operand("float32", (4,))


def _reduce() -> ShardCollective:
    group = RankGroup("world", (0, 1))
    return ShardCollective(Call(kind=Kind.ALL_REDUCE, group=group), (FOUR,), (FOUR,))


def _send(to: int) -> ShardCollective:
    call = Call(kind=Kind.SEND, group=RankGroup("pair", (0, 1)), sends_to=(to,))
    return ShardCollective(call, (FOUR,), ())


def _receive(source: int) -> ShardCollective:
    call = Call(kind=Kind.RECEIVE, group=RankGroup("pair", (0, 1)), receives_from=(source,))
    return ShardCollective(call, (), (FOUR,))


def _ranks(
    places: Sequence[DevicePlace],
    *shards: Sequence[ShardCollective],
    choice: BackendChoice = ON_ONE_HOST,
) -> list[Fingerprint]:
    return [
        Fingerprint(rank, f"m{rank}", ("x",), tuple(shard), collectives=choice, place=place)
        for rank, (place, shard) in enumerate(zip(places, shards, strict=True))
    ]


@pytest.mark.parametrize("choice", [ON_ONE_HOST, BETWEEN_HOSTS, BackendChoice("mpi", "mpirun")])
def test_ranks_with_a_device_each_use_its_collectives(choice: BackendChoice) -> None:
    found = choice_by_devices(_ranks(GPUS, [_reduce()], [_reduce()], choice=choice))
    assert str(found) == "nccl (each rank keeps its results on a device of its own)"


def test_ranks_that_share_a_device_go_by_the_host() -> None:
    found = choice_by_devices(_ranks([GPUS[0]] * 2, [_reduce()], [_reduce()]))
    assert found.name == "shared_memory"
    assert found.reason.endswith("and some share a device, which nccl refuses")


@pytest.mark.parametrize(
    "places", [[HOST, HOST], [GPUS[0], HOST], [GPUS[0], DevicePlace("npu 0", "hccl")]]
)
def test_results_elsewhere_leave_the_choice_for_the_host(places: list[DevicePlace]) -> None:
    assert choice_by_devices(_ranks(places, [_reduce()], [_reduce()])) == ON_ONE_HOST


def test_what_the_user_asks_for_stays() -> None:
    asked = BackendChoice("shared_memory", "RANKMESH_COLLECTIVES says so", asked=True)
    assert choice_by_devices(_ranks(GPUS, [_reduce()], [_reduce()], choice=asked)) == asked


def test_messages_between_stages_of_a_host_go_by_their_devices_memory() -> None:
    shards = [_send(1)], [_receive(0)]
    assert choice_by_devices(_ranks(GPUS, *shards)) == ON_ONE_HOST
    assert choice_by_devices(_ranks(GPUS, *shards, choice=BETWEEN_HOSTS)).name == "nccl"


def test_sends_that_wait_for_their_receive_keep_what_lets_them_go_on() -> None:
    """Both ranks send before they receive: the memory of the host holds the messages meanwhile."""
    shards = [_send(1), _receive(1), _reduce()], [_send(0), _receive(0), _reduce()]
    found = choice_by_devices(_ranks(GPUS, *shards))
    assert found.name == "shared_memory"
    assert found.reason.endswith("and with nccl a Send would wait for ever")


def test_one_rank_that_was_asked_for_another_backend_is_an_error() -> None:
    first, second = _ranks(GPUS, [_reduce()], [_reduce()])
    asked = BackendChoice("gloo", "RANKMESH_COLLECTIVES says so", asked=True)
    with pytest.raises(UsageError) as caught:
        agreed_choice([first, msgspec.structs.replace(second, collectives=asked)])
    assert str(caught.value) == (
        "rank 0 exchanges tensors by shared_memory (all ranks are on this host), and rank 1 by "
        "gloo (RANKMESH_COLLECTIVES says so): set RANKMESH_COLLECTIVES alike on all ranks."
    )
