"""Packets that no peer of ours would send: every decoder refuses them, every server survives
them."""

from __future__ import annotations

import logging
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from random import Random
from threading import Thread

import msgspec
import pytest
import zmq
from packets import DECODERS, NESTED, packet, survives, unknown_field
from processes import PATIENCE, wait_until

from rankmesh.comm.decoding import decode_payloads
from rankmesh.comm.errors import RankFailed
from rankmesh.comm.host.sealed_memory import SealedMemory
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.host_peers import HostPeer
from rankmesh.comm.rendezvous.address import RendezvousAddress
from rankmesh.comm.rendezvous.local_rendezvous import join_locally
from rankmesh.comm.rendezvous.remote_link import RemoteLink
from rankmesh.comm.rendezvous.remote_rendezvous_server import RemoteRendezvousServer
from rankmesh.comm.rendezvous.rendezvous import ChannelRendezvous
from rankmesh.comm.sharing import messages as sharing
from rankmesh.comm.sharing.broker import Broker
from rankmesh.comm.sharing.messages import broker_path
from rankmesh.comm.sharing.whitelist import Whitelist
from rankmesh.comm.transport.channel import Channel
from rankmesh.comm.transport.curve import make_keys, public_key
from rankmesh.comm.transport.curve_client import CurveClient
from rankmesh.comm.transport.curve_server import CurveServer
from rankmesh.comm.transport.local_socket import socket_path
from rankmesh.comm.transport.messages import Failed, Join, Joined, encode

HOST, KEYS = "127.0.0.1", make_keys()
NO_TEXT = b"\xa2\xff\xfe"


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_survives_every_packet(name: str) -> None:
    decode, messages = DECODERS[name]
    random = Random(name)
    for message in messages:
        decode(message)
        if 0x80 <= message[0] < 0x8F:
            survives(decode, unknown_field(message, NESTED))
    for _ in range(5_000):
        survives(decode, packet(random, messages))


def test_what_was_sent_does_not_flood_the_text_of_a_refusal() -> None:
    long = msgspec.msgpack.encode({"type": "line\n" * 10_000})
    with pytest.raises(msgspec.DecodeError) as caught:
        DECODERS["message"][0](long)
    assert len(str(caught.value)) <= 200 and "\n" not in str(caught.value)


def test_rank_whose_payload_is_none_is_named() -> None:
    good = msgspec.msgpack.encode(HostPeer("boot", 1, 2))
    with pytest.raises(
        RankFailed,
        match="^rank 1 sent what is no HostPeer .*: install the same version",
    ):
        decode_payloads([good, unknown_field(good, NESTED)], HostPeer)


def bad_packets(name: str, most: int) -> list[bytes]:
    """The exploits first, then `most` others that are not too long for one packet of a broker."""
    _, messages = DECODERS[name]
    random = Random(name)
    exploits = [
        unknown_field(messages[0], NESTED),
        unknown_field(messages[0], NO_TEXT),
        NESTED,
        b"\xc1",
    ]
    return exploits + [
        data for data in (packet(random, messages) for _ in range(most)) if 0 < len(data) < 8192
    ]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder with a short name."""
    with tempfile.TemporaryDirectory(prefix="rm") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield


def test_broker_survives_every_packet(folder: None) -> None:
    file = SealedMemory("test", 100)
    broker = Broker(Whitelist([os.getpid()]), "model", "cpu 0", [file.fd], rank=3)
    broker.start()
    try:
        for data in bad_packets("request", 300):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(PATIENCE)
                sock.connect(broker_path(broker.handle))
                sock.send(data)
                try:
                    answer = sock.recv(sharing.LONGEST)
                except ConnectionResetError:
                    continue
                assert not answer or sharing.decode_reply(answer)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(broker_path(broker.handle))
            sock.send(sharing.encode(sharing.Identify()))
            assert sharing.decode_reply(sock.recv(sharing.LONGEST)) == sharing.Identified(3)
    finally:
        broker.close()
        file.close()


def test_local_hub_survives_every_packet(folder: None, caplog: pytest.LogCaptureFixture) -> None:
    channel, arena, _ = join_locally(Rank(0, 2, 0, 2, "host", 0), "key", PATIENCE)
    with caplog.at_level(logging.WARNING, "rankmesh"):
        packets = [data for data in bad_packets("message", 300) if not joins(data)]
        for data in packets:
            with stranger("key") as sock:
                sock.sendall(struct.pack("<Q", len(data)) + data)
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(1) == b""
        for head in (b"\xff" * 8, b"\0" * 8, struct.pack("<Q", 1 << 17)):
            with stranger("key") as sock:
                sock.sendall(head)
                assert sock.recv(1) == b""
    assert "what came over the channel is no message" in caplog.text
    assert len(caplog.records) < 30
    other, its_arena, _ = join_locally(Rank(1, 2, 1, 2, "host", 0), "key", PATIENCE)
    meetings = [
        ChannelRendezvous(Rank(r, 2, r, 2, "host", 0), c, a, PATIENCE)
        for r, (c, a) in enumerate([(channel, arena), (other, its_arena)])
    ]
    threads = [Thread(target=meeting.exchange, args=(b"payload",)) for meeting in meetings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    for end in (channel, other):
        end.close()
    wait_until(lambda: not os.path.exists(socket_path("key")), "the server to end")


def joins(data: bytes) -> bool:
    try:
        return isinstance(DECODERS["message"][0](data), Join)
    except msgspec.DecodeError:
        return False


def stranger(key: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(PATIENCE)
    sock.connect(socket_path(key))
    return sock


def test_member_of_a_local_hub_that_joins_twice_or_garbles_is_named(folder: None) -> None:
    channel, arena, _ = join_locally(Rank(0, 2, 0, 2, "host", 0), "key", PATIENCE)
    sock = stranger("key")
    member = Channel(sock)
    for _ in range(2):
        member.send(Join(1, 2))
    assert isinstance(member.receive_with_fds()[0], Joined)
    meeting = ChannelRendezvous(Rank(0, 2, 0, 2, "host", 0), channel, arena, PATIENCE)
    with pytest.raises(RankFailed, match=rf"rank 1 \(process {os.getpid()}\) wanted to join twice"):
        meeting.exchange(b"")
    member.close()
    channel.close()
    wait_until(lambda: not os.path.exists(socket_path("key")), "the server to end")


def test_hub_of_several_hosts_survives_every_packet_of_a_key_holder() -> None:
    with socket.create_server((HOST, 0)) as probe:
        port = probe.getsockname()[1]
    server = RemoteRendezvousServer(
        CurveServer(HOST, port, KEYS, 2),
        Rank(0, 2, 0, 1, "host0", 0),
        RendezvousAddress(HOST, port, "a job"),
        "rank 0",
        PATIENCE,
    )
    server.start()
    context = zmq.Context()
    sock = context.socket(zmq.DEALER)
    sock.set(zmq.LINGER, 0)
    sock.set(zmq.CURVE_SERVERKEY, public_key(KEYS.server))
    sock.set(zmq.CURVE_PUBLICKEY, public_key(KEYS.client))
    sock.set(zmq.CURVE_SECRETKEY, KEYS.client.encode())
    sock.connect(f"tcp://{HOST}:{port}")
    exploits, others = bad_packets("message", 0), bad_packets("message", 300)[4:]
    for data in (
        exploits + [data for data in others if len(data) < 1000][:30]
    ):  # more bytes would end the connection
        sock.send_multipart([data] if len(data) % 2 else [data[:5], data[5:]])
    sock.send(encode(Join(7, 2, "a job", "x")))
    assert sock.poll(PATIENCE * 1000)  # all that came before has been taken
    links = [
        RemoteLink(
            CurveClient(HOST, port, KEYS),
            Rank(r, 2, 0, 1, f"host{r}", 0),
            RendezvousAddress(HOST, port, "a job"),
            lambda _: None,
        )
        for r in range(2)
    ]
    for rank, link in enumerate(links):
        link.join("a job", f"host{rank}", PATIENCE)
    threads = [Thread(target=link.exchange, args=(b"payload",)) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    for link in links:
        link.close()
    server.close()
    sock.close()
    context.term()


def test_rank_that_is_told_what_is_no_message_says_so() -> None:
    context = zmq.Context()
    server = context.socket(zmq.ROUTER)
    server.set(zmq.LINGER, 0)
    server.set(zmq.CURVE_SERVER, 1)
    server.set(zmq.CURVE_SECRETKEY, KEYS.server.encode())
    port = server.bind_to_random_port(f"tcp://{HOST}")
    failed: list[Failed] = []
    link = RemoteLink(
        CurveClient(HOST, port, KEYS),
        Rank(1, 2, 0, 1, "host1", 0),
        RendezvousAddress(HOST, port, "a job"),
        failed.append,
    )
    joining = Thread(
        target=lambda: pytest.raises(RankFailed, link.join, "a job", "host1", PATIENCE)
    )
    joining.start()
    peer, _ = server.recv_multipart()
    server.send_multipart([peer, unknown_field(encode(Joined("rank 0")), NESTED)])
    joining.join(PATIENCE)
    assert "rank 0 sent what is no message (maximum recursion depth" in failed[0].text
    link.close()
    server.close()
    context.term()
