"""The conformance suite over MPI: run with `mpirun -n 2 pytest --only-mpi`, which launch/test.sh
does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from collective_cases import KINDS, Case, disagreements, large_cases, make_cases, play

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.errors import RankmeshError
from rankmesh.comm.job.identity import detect
from rankmesh.comm.rendezvous.rendezvous import Rendezvous

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def meeting() -> Iterator[Rendezvous]:
    from rankmesh.comm.rendezvous.mpi_rendezvous import MpiRendezvous

    yield MpiRendezvous(detect().rank, 60.0)


def played(meeting: Rendezvous, cases: list[Case]) -> None:
    """This rank gets what numpy gets, and the same bits as the others."""
    rank = meeting.rank
    pairs = [(s, d) for s in range(rank.world_size) for d in range(rank.world_size)]
    collectives = meeting.collectives([case.members for case in cases], pairs)
    assert collectives.name == "mpi"
    wrong, digests = play(collectives, cases, rank.rank, in_order=False)
    collectives.close()
    everybody = [json.loads(payload) for payload in meeting.exchange(json.dumps(digests).encode())]
    assert wrong == []
    assert disagreements(everybody) == []


@pytest.mark.parametrize("kind", KINDS)
def test_kind_gives_what_numpy_gives(meeting: Rendezvous, kind: str) -> None:
    played(meeting, make_cases(meeting.rank.world_size, seed=1, count=60, kinds=[kind]))


def test_mixed_sequence_gives_what_numpy_gives(meeting: Rendezvous) -> None:
    played(meeting, make_cases(meeting.rank.world_size, seed=5, count=200, kinds=KINDS))


def test_64_megabytes(meeting: Rendezvous) -> None:
    played(meeting, large_cases(meeting.rank.world_size))


def test_long_messages_go_in_parts(meeting: Rendezvous, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankmesh.comm.collectives.libraries.mpi.MPI_CHUNK", 4096)
    kinds = [Kind.ALL_REDUCE, Kind.REDUCE, Kind.BROADCAST, Kind.SEND, Kind.NEIGHBOR_EXCHANGE]
    played(
        meeting,
        make_cases(meeting.rank.world_size, seed=9, count=60, kinds=[kind.value for kind in kinds]),
    )


def test_what_cannot_go_in_parts_is_refused(
    meeting: Rendezvous, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankmesh.comm.collectives.libraries.mpi.MPI_CHUNK", 4096)
    with pytest.raises(
        ValueError, match="AllGather of .* bytes: over MPI it carries less than 8192"
    ):
        run(
            meeting,
            Kind.ALL_GATHER,
            np.zeros(8192, np.int8),
            np.zeros(8192 * meeting.rank.world_size, np.int8),
        )


@pytest.mark.parametrize(
    ("kind", "x", "out", "said"),
    [
        (Kind.ALL_REDUCE, np.zeros(4), np.zeros(5), "pairs float64"),
        (Kind.ALL_TO_ALL, np.zeros(4), np.zeros(5), "pairs float64"),
        (Kind.ALL_REDUCE, np.zeros((4, 4)).T, np.zeros((4, 4)), "C-contiguous"),
        (Kind.ALL_REDUCE, np.zeros(4, "S3"), np.zeros(4, "S3"), "MPI cannot reduce"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    meeting: Rendezvous,
    kind: Kind,
    x: np.ndarray,
    out: np.ndarray,
    said: str,
) -> None:
    with pytest.raises(ValueError, match=said):
        run(meeting, kind, x, out)


def test_group_that_nobody_joined(meeting: Rendezvous) -> None:
    with pytest.raises(
        RankmeshError, match="every group and pair must be among those that the ranks joined with"
    ):
        run(meeting, Kind.ALL_REDUCE, np.zeros(1), np.zeros(1), joined=False)


def test_exchange_of_payloads_of_any_length(meeting: Rendezvous) -> None:
    rank, world = meeting.rank.rank, meeting.rank.world_size
    assert meeting.exchange(b"x" * (rank * 100_000)) == [b"x" * (r * 100_000) for r in range(world)]
    assert meeting.exchange(b"") == [b""] * world


def test_nothing_is_left_in_the_users_folder(meeting: Rendezvous) -> None:
    from rankmesh.comm.transport.local_socket import runtime_dir

    key = os.environ.get("PMIX_NAMESPACE")
    if key is None:
        pytest.skip("this MPI does not name its jobs")
    from rankmesh.comm.transport.local_socket import socket_path

    meeting.exchange(b"")
    assert os.path.basename(socket_path(key)) not in os.listdir(runtime_dir())


def run(
    meeting: Rendezvous, kind: Kind, x: np.ndarray, out: np.ndarray, joined: bool = True
) -> None:
    members: Sequence[int] = tuple(range(meeting.rank.world_size))
    collectives = meeting.collectives([tuple(members)] if joined else [], [])
    collectives.run(
        Call(kind=kind, group=RankGroup("world", tuple(members)), node="node"), [x], [out]
    )
