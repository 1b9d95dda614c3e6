"""Connections between hosts, over the loopback: who may connect, what is relayed, who is named when
one is gone.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import zmq
from processes import PATIENCE, wait_until

from rankmesh.comm.errors import ModelError, RankFailed, UsageError
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.address import RendezvousAddress
from rankmesh.comm.rendezvous.remote_link import RemoteLink
from rankmesh.comm.rendezvous.remote_rendezvous_server import RemoteRendezvousServer
from rankmesh.comm.transport.curve import LONGEST, make_keys, public_key
from rankmesh.comm.transport.curve_client import CurveClient
from rankmesh.comm.transport.curve_server import CurveServer
from rankmesh.comm.transport.key_file import Keys
from rankmesh.comm.transport.messages import Failed, Finished, Join

HOST, JOB = "127.0.0.1", "a job"
HOSTS = ("192.0.2.0", "192.0.2.1", "192.0.2.2")
KEYS = make_keys()


class Job:
    """A server and the links of its ranks."""

    def __init__(self, world_size: int, timeout: float = PATIENCE) -> None:
        with socket.create_server((HOST, 0)) as probe:
            self.port = probe.getsockname()[1]
        self.world_size, self.timeout = world_size, timeout
        self.server = RemoteRendezvousServer(
            CurveServer(HOST, self.port, KEYS, world_size),
            self.rank(0),
            RendezvousAddress(HOST, self.port, JOB, HOSTS),
            "where rank 0 is",
            timeout,
        )
        self.server.start()
        self.links: list[RemoteLink] = []
        self.news: list[Failed] = []

    def rank(self, number: int) -> Rank:
        return Rank(number, max(self.world_size, number + 1), 0, 1, f"host{number}", 0)

    def link(
        self, number: int, job: str = JOB, keys: Keys = KEYS, world_size: int = 0
    ) -> RemoteLink:
        """A rank that has joined."""
        rank = Rank(number, world_size or self.world_size, 0, 1, f"host{number}", 0)
        link = RemoteLink(
            CurveClient(HOST, self.port, keys),
            rank,
            RendezvousAddress(HOST, self.port, job),
            self.news.append,
        )
        self.links.append(link)
        link.join(job, f"host{number}, process {number}", self.timeout)
        return link

    def all(self) -> list[RemoteLink]:
        return [self.link(number) for number in range(self.world_size)]

    def exchange(self, links: list[RemoteLink], payloads: list[bytes]) -> list[list[bytes]]:
        with ThreadPoolExecutor(len(links)) as pool:
            return list(pool.map(lambda link, payload: link.exchange(payload), links, payloads))

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.server.close()


@pytest.fixture
def job() -> Iterator[Job]:
    job = Job(3)
    yield job
    job.close()


def test_exchanges_come_back_in_the_order_of_ranks(job: Job) -> None:
    links = job.all()
    for size in (0, 3, 100_000):
        payloads = [bytes([r]) * size for r in range(3)]
        assert job.exchange(links, payloads) == [payloads] * 3


def test_keys_of_other_files_are_refused(job: Job) -> None:
    for keys in (
        make_keys(),
        Keys(KEYS.server, make_keys().client),
        Keys(make_keys().server, KEYS.client),
    ):
        with pytest.raises(
            UsageError, match="rank 1 of 3 on host1: rank 0 at .* does not take our keys"
        ):
            job.link(1, keys=keys)
    job.link(1)


def test_clients_without_keys_are_not_heard(job: Job) -> None:
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.set(zmq.LINGER, 0)
    monitor = stranger.get_monitor_socket()
    stranger.connect(f"tcp://{HOST}:{job.port}")
    stranger.send(b"let me in")
    refused = 0
    while not refused & zmq.Event.DISCONNECTED:
        assert monitor.poll(PATIENCE * 1000)
        refused |= int.from_bytes(monitor.recv_multipart()[0][:2], "little")
    assert not refused & zmq.Event.HANDSHAKE_SUCCEEDED
    stranger.disable_monitor()
    monitor.close(0)
    stranger.close()
    context.term()
    job.exchange(job.all(), [b""] * 3)


@pytest.mark.parametrize(
    "which, said",
    [
        (
            {"number": 1, "job": "another"},
            "two jobs want one port: 'a job' of where rank 0 is has it, and .* 'another'",
        ),
        (
            {"number": 0},
            r"rank 0 of 3 \(host0, process 0\) of this job runs already \(where rank 0 is\)",
        ),
        ({"number": 1, "world_size": 2}, "rank 1 of 2 came to a job of 3 ranks"),
        ({"number": 3, "world_size": 4}, "rank 3 of 4 came to a job of 3 ranks"),
    ],
)
def test_who_does_not_belong_to_the_job_is_told_why(
    job: Job, which: dict[str, object], said: str
) -> None:
    links = [job.link(0)]
    with pytest.raises(UsageError, match=said):
        job.link(**which)  # type: ignore[arg-type]
    links += [job.link(1), job.link(2)]
    job.exchange(links, [b""] * 3)
    assert len(job.news) == 1  # which was for the one that was refused


def test_failure_is_told_to_all_and_to_those_who_come_later(job: Job) -> None:
    links = [job.link(0), job.link(1)]
    links[1].fail(Failed("ModelError", "rank 1 has no model", 1))
    wait_until(lambda: len(job.news) == 2, "both ranks to be told")
    for link in links:
        with pytest.raises(ModelError, match="rank 1 has no model"):
            link.exchange(b"")
    with pytest.raises(ModelError, match="rank 1 has no model"):
        job.link(2)


def test_the_first_failure_counts(job: Job) -> None:
    links = job.all()
    links[1].fail(Failed("RankFailed", "the first", 1))
    links[2].fail(Failed("RankFailed", "the second", 2))
    wait_until(lambda: len(job.news) == 3, "all ranks to be told")
    assert {failed.text for failed in job.news} == {"the first"}


def test_rank_that_is_gone_without_a_word_is_named(job: Job) -> None:
    links = job.all()
    began = time.monotonic()
    links[2].close()
    wait_until(lambda: len(job.news) == 2, "the others to be told")
    assert time.monotonic() - began < 10
    assert all(f.rank == 2 and "rank 2 of 3 (host2, process 2) is gone" in f.text for f in job.news)


def test_rank_that_leaves_in_order_fails_only_those_who_wait_for_it(job: Job) -> None:
    links = job.all()
    links[2].leave()
    assert not job.news
    with pytest.raises(
        RankFailed, match=r"rank 2 of 3 \(host2, process 2\) has ended, and the others wait for it"
    ):
        links[1].exchange(b"")


def test_rank_0_that_leaves_in_order_fails_nobody_at_once(job: Job) -> None:
    links = job.all()
    links[0].leave()
    job.server.close()
    with pytest.raises(
        RankFailed,
        match="rank 0 of 3 .where rank 0 is. has ended, and brings the ranks together no",
    ):
        links[1].exchange(b"")
    assert not job.news


def test_answers_that_come_before_rank_0_ends_count(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    links, got = job.all(), []
    late = threading.Thread(target=lambda: got.append(links[1].exchange(b"1")))
    wake = CurveClient.wake

    def wake_and_be_late(client: CurveClient) -> None:
        """The thread goes on when rank 0 has answered and ended."""
        wake(client)
        if threading.current_thread() is late:
            wait_until(lambda: links[1].failure, "the end of rank 0")

    monkeypatch.setattr(CurveClient, "wake", wake_and_be_late)
    late.start()
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(links[rank].exchange, b"%d" % rank) for rank in (0, 2)]
        assert [one.result(PATIENCE) for one in others] == [[b"0", b"1", b"2"]] * 2
    links[0].leave()
    job.server.close()
    late.join(PATIENCE)
    assert got == [[b"0", b"1", b"2"]]


def test_hub_that_is_gone_is_named(job: Job) -> None:
    links = [job.link(0), job.link(1)]
    job.server.close()
    wait_until(lambda: len(job.news) == 2, "the ranks to notice")
    with pytest.raises(
        RankFailed, match=r"rank 0 of 3 \(where rank 0 is\) is gone: its process was ended, or its"
    ):
        links[1].exchange(b"")


def test_rank_that_never_comes_is_named_and_other_keys_are_mentioned() -> None:
    job = Job(3, timeout=2)
    try:
        with pytest.raises(UsageError):
            job.link(1, keys=make_keys())
        link = job.link(0)
        job.link(2)
        with pytest.raises(
            RankFailed,
            match=(
                r"waited 2 s for each other: rank 1 never came \(expected on 192.0.2.1\), rank 2 of 3 \(host2, "  # noqa: E501
                r"process 2\) did not come to an exchange of all ranks \(\d+ connections? without this key "  # noqa: E501
                r"file's keys ended"
            ),
        ):
            link.exchange(b"")
    finally:
        job.close()


def test_rank_0_that_never_comes_is_named() -> None:
    with socket.create_server((HOST, 0)) as probe:
        port = probe.getsockname()[1]
    link = RemoteLink(
        CurveClient(HOST, port, KEYS),
        Rank(1, 2, 0, 1, "host1", 0),
        RendezvousAddress(HOST, port, JOB),
        lambda _: None,
    )
    with pytest.raises(
        RankFailed,
        match=rf"rank 1 of 2 on host1: rank 0 at {HOST}:{port} did not answer within 0.3 s",
    ):
        link.join(JOB, "", 0.3)
    link.close()


def test_payload_that_is_too_long_is_refused_before_it_is_sent(job: Job) -> None:
    with pytest.raises(RankFailed, match="for the other ranks, more than"):
        job.link(1).exchange(bytes(LONGEST // 2 + 1))


def test_message_beyond_the_bound_ends_the_connection(job: Job) -> None:
    client = connected(job)
    client.send(Finished(bytes(LONGEST)))
    wait_until(
        lambda: client.receive() is not None and client.state.name == "LOST",
        "the server to hang up",
    )
    client.close()
    job.exchange(job.all(), [b""] * 3)


def test_messages_of_another_kind_end_the_job_and_strangers_are_not_heard(job: Job) -> None:
    stranger, member = connected(job), connected(job, 2)
    stranger.send(Finished(b""))
    stranger.send(Join(1, 3, "x" * 1001, ""))
    links = [job.link(0), job.link(1)]
    assert not job.news
    member.send(Finished(b""))
    wait_until(lambda: len(job.news) == 2, "the ranks to be told")
    assert (
        job.news[0].rank == 2
        and "rank 2 of 3 (host2, process 2) sent what is no message" in job.news[0].text
    )
    for end in (stranger, member, *links):
        end.close()


def connected(job: Job, rank: int = -1) -> CurveClient:
    client = CurveClient(HOST, job.port, KEYS)
    client.send(Join(rank, 3, JOB, f"host{rank}, process {rank}"))
    while not client.receive():
        pass
    return client


def test_address_of_another_host_cannot_be_listened_at() -> None:
    with pytest.raises(OSError, match="assign|device"):
        CurveServer("192.0.2.1", 29410, KEYS, 1)


def test_second_listener_is_refused(job: Job) -> None:
    with pytest.raises(OSError, match="in use"):
        CurveServer(HOST, job.port, KEYS, 3)
    assert public_key(KEYS.server) != public_key(KEYS.client)
