"""What processes that are not listed try on an owner, with the rights that they really have.

Owner and attackers are processes without capabilities, under numeric user ids of no account. Forked
ones are made dumpable first, as an exec makes every program, so that what closes them is the
broker.
"""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from processes import PATIENCE
from told_process import ToldProcess

from rankmesh.comm.errors import UsageError
from rankmesh.comm.host.sealed_memory import SealedMemory, map_read_only
from rankmesh.comm.sharing.attachment import Attachment
from rankmesh.comm.sharing.broker import Broker
from rankmesh.comm.sharing.lease import Lease
from rankmesh.comm.sharing.messages import (
    LONGEST,
    Granted,
    Hello,
    More,
    Proven,
    broker_path,
    encode,
    nonce,
)
from rankmesh.comm.sharing.whitelist import Whitelist
from rankmesh.comm.transport.local_socket import credentials

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can start processes of other users"
)
_FORK = multiprocessing.get_context("fork")
_LIBC = ctypes.CDLL(None, use_errno=True)
OWNER, OTHER = 61234, 61235
MODEL, DEVICE, SECRET = "a model's hash", "cpu 0", b"SECRETWEIGHTS"
_PIDFD_GETFD, _PTRACE_ATTACH, _PR_SET_DUMPABLE = 438, 16, 4


def as_user(uid: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` returns in a forked process of the user `uid`; its exceptions come as their
    text.
    """
    mine, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_become, args=(uid, theirs, function, arguments))
    process.start()
    theirs.close()
    assert mine.poll(PATIENCE)
    answer = mine.recv()
    process.join()
    return answer


def _become(
    uid: int, pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    try:
        pipe.send(function(*arguments))
    except (OSError, UsageError) as error:
        pipe.send(f"{type(error).__name__}: {error}")


class Owner(ToldProcess):
    """A process of the user OWNER that shares memory, and lists or revokes whom it is told."""

    def __init__(self) -> None:
        self.pipe, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_become, args=(OWNER, theirs, _own, (theirs,)))
        self.process.start()
        self.handle, self.address, self.fd = self.pipe.recv()

    def processor_seconds(self) -> float:
        """What the owner has computed so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.pipe.send(("end",))
        self.process.join()


def _own(pipe: Connection) -> str:
    file = SealedMemory("weights", 1 << 20)
    file.bytes[: len(SECRET)] = SECRET
    broker = Broker(Whitelist(), MODEL, DEVICE, [file.fd])
    broker.start()
    pipe.send((broker.handle, ctypes.addressof(ctypes.c_char.from_buffer(file.bytes)), file.fd))
    while True:
        command, *arguments = pipe.recv()
        if command == "end":
            broker.close()
            return "ended"
        pipe.send(
            getattr(broker.whitelist, command)(*arguments)
            if command != "clients"
            else broker.clients()
        )


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """In a runtime folder that other users may at least look for."""
    folder = tempfile.mkdtemp(dir="/tmp")
    os.chmod(folder, 0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    made = Owner()
    yield made
    made.close()
    assert made.process.exitcode == 0
    shutil.rmtree(folder)


def _attach(handle: int) -> bytes:
    with closing(Attachment(handle, MODEL, DEVICE)) as held:
        return bytes(map_read_only(held.fds[0])[: len(SECRET)])


def test_the_same_user_off_the_list_with_the_handle_is_refused(owner: Owner) -> None:
    assert "is not on the owner's list of processes" in as_user(OWNER, _attach, owner.handle)


def _attach_at(path: str, handle: int) -> bytes:
    with mock.patch("rankmesh.comm.sharing.attachment.broker_path", lambda _: path):
        return _attach(handle)


def test_another_user_with_the_handle_and_the_path_cannot_connect(owner: Owner) -> None:
    path = as_user(OWNER, broker_path, owner.handle)
    assert "PermissionError" in as_user(OTHER, _attach_at, path, owner.handle)


def test_another_user_is_refused_even_where_the_folder_is_open(owner: Owner) -> None:
    path = as_user(OWNER, broker_path, owner.handle)
    os.chmod(os.path.dirname(path), 0o711)
    os.chmod(path, 0o777)
    assert f"belongs to user {OWNER}, expected {OTHER}" in as_user(
        OTHER, _attach_at, path, owner.handle
    )
    assert b"these weights belong to another user" in as_user(OTHER, _first_word, path)


def _first_word(path: str) -> bytes:
    """What the process that listens at `path` says to one that connects."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(path)
        return sock.recv(LONGEST)


def _open_descriptor(pid: int, fd: int, flags: int) -> bytes:
    return os.pread(os.open(f"/proc/{pid}/fd/{fd}", flags), len(SECRET), 0)


def _read_memory(pid: int, address: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(address)
        return memory.read(len(SECRET))


def _trace(pid: int) -> str:
    _checked(_LIBC.ptrace(_PTRACE_ATTACH, pid, None, None))
    return "attached"


def _take_descriptor(pid: int, fd: int) -> bytes:
    taken = _checked(_LIBC.syscall(_PIDFD_GETFD, os.pidfd_open(pid), fd, 0))
    return os.pread(taken, len(SECRET), 0)


class _Span(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _read_span(pid: int, address: int) -> bytes:
    buffer = ctypes.create_string_buffer(len(SECRET))
    local, remote = _Span(ctypes.addressof(buffer), len(SECRET)), _Span(address, len(SECRET))
    _checked(_LIBC.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
    return buffer.raw[: len(SECRET)]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


ATTACKS = {
    "fd": lambda owner: (_open_descriptor, owner.pid, owner.fd, os.O_RDONLY),
    "fd for writing": lambda owner: (_open_descriptor, owner.pid, owner.fd, os.O_RDWR),
    "mem": lambda owner: (_read_memory, owner.pid, owner.address),
    "ptrace": lambda owner: (_trace, owner.pid),
    "pidfd_getfd": lambda owner: (_take_descriptor, owner.pid, owner.fd),
    "process_vm_readv": lambda owner: (_read_span, owner.pid, owner.address),
}


@pytest.mark.parametrize("uid", [OWNER, OTHER], ids=["same user", "other user"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_owner_is_closed_to_other_processes(owner: Owner, attack: str, uid: int) -> None:
    answer = as_user(uid, *ATTACKS[attack](owner))
    assert isinstance(answer, str)
    assert answer.startswith("PermissionError"), answer


def test_the_attacks_would_work_on_a_process_that_is_not_closed() -> None:
    """What the test above rests on: without the broker the same calls read the secret."""
    mine, theirs = _FORK.Pipe()
    victim = _FORK.Process(target=_become, args=(OWNER, theirs, _expose, (theirs,)))
    victim.start()
    address, fd = mine.recv()
    try:
        assert as_user(OWNER, _open_descriptor, victim.pid, fd, os.O_RDONLY) == SECRET
        assert as_user(OWNER, _read_memory, victim.pid, address) == SECRET
        assert as_user(OWNER, _take_descriptor, victim.pid, fd) == SECRET
        assert as_user(OWNER, _read_span, victim.pid, address) == SECRET
    finally:
        victim.kill()
        victim.join()


def _expose(pipe: Connection) -> None:
    fd = os.memfd_create("weights")
    os.ftruncate(fd, 4096)
    view = mmap.mmap(fd, 4096)
    view[: len(SECRET)] = SECRET
    pipe.send((ctypes.addressof(ctypes.c_char.from_buffer(view)), fd))
    signal.pause()


def _listed(handle: int, pipe: Connection, attack: Callable[[Attachment], Any]) -> Any:
    """Wait until the owner has listed this process, attach, attack."""
    _wait_for_the_list(pipe)
    with closing(Attachment(handle, MODEL, DEVICE)) as held:
        return attack(held)


def _wait_for_the_list(pipe: Connection) -> None:
    pipe.send(os.getpid())
    assert pipe.poll(PATIENCE)
    pipe.recv()


def _attach_once_listed(handle: int, pipe: Connection) -> bytes:
    _wait_for_the_list(pipe)
    return _attach(handle)


def as_listed(owner: Owner, attack: Callable[[Attachment], Any]) -> Any:
    """What `attack` returns in a listed process that is attached."""
    return in_listed(owner, _listed, attack)


def in_listed(owner: Owner, function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` returns in a process that is listed once it has sent its number."""
    mine, theirs = _FORK.Pipe()
    answer: list[Any] = []
    asking = threading.Thread(
        target=lambda: answer.append(as_user(OWNER, function, owner.handle, theirs, *arguments))
    )
    asking.start()
    assert mine.poll(PATIENCE)
    assert owner("allow", mine.recv())
    mine.send("listed")
    asking.join()
    return answer[0]


def _write(held: Attachment) -> list[str]:
    """Everything that a listed process may try to change what it reads."""
    fd = held.fds[0]
    view = mmap.mmap(fd, 4096, access=mmap.ACCESS_READ)
    address = ctypes.c_void_p(_address_of(fd))
    tries: list[Callable[[], Any]] = [
        lambda: os.pwrite(fd, b"x", 0),
        lambda: mmap.mmap(fd, 4096),
        lambda: os.pwrite(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), b"x", 0),
        lambda: mmap.mmap(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), 4096),
        lambda: os.ftruncate(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), 0),
        lambda: _checked(
            _LIBC.mprotect(address, ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE)
        ),
    ]
    said = []
    for attempt in tries:
        try:
            attempt()
            said.append("done")
        except OSError as error:
            said.append(type(error).__name__)
    view.close()
    return said


def _address_of(fd: int) -> int:
    """Where `fd` is mapped in this process."""
    inode = str(os.fstat(fd).st_ino)
    lines = Path("/proc/self/maps").read_text().splitlines()
    line = next(
        line for line in lines if line.split()[4] == inode and line.split()[1].startswith("r--s")
    )
    return int(line.partition("-")[0], 16)


def test_a_listed_process_reads_but_cannot_write(owner: Owner) -> None:
    assert as_listed(owner, lambda held: bytes(map_read_only(held.fds[0])[: len(SECRET)])) == SECRET
    answers = as_listed(owner, _write)
    assert answers == [
        "OSError",
        "PermissionError",
        "PermissionError",
        "PermissionError",
        "PermissionError",
        "PermissionError",
    ]


def test_no_child_of_a_listed_process_gets_the_weights(owner: Owner) -> None:
    def probe(held: Attachment) -> str:
        """What a program has open that is started as os.system does it."""
        return subprocess.run(
            ["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True, text=True
        ).stdout

    children = as_listed(owner, probe)
    assert "/proc" in children
    assert "rankmesh" not in children


def test_a_listed_process_is_closed_to_others_too(owner: Owner) -> None:
    def probe(held: Attachment) -> Any:
        mine, theirs = _FORK.Pipe()
        spy = _FORK.Process(target=_spy, args=(theirs, os.getpid(), held.fds[0]))
        spy.start()
        assert mine.poll(PATIENCE)
        found = mine.recv()
        spy.join()
        return found

    assert as_listed(owner, probe) == "PermissionError"


def _spy(pipe: Connection, pid: int, fd: int) -> None:
    try:
        pipe.send(_take_descriptor(pid, fd))
    except OSError as error:
        pipe.send(type(error).__name__)


def test_a_number_used_again_is_not_the_listed_process(owner: Owner) -> None:
    """A process of the same number as a listed one that has ended, made by asking the kernel for
    that number.
    """
    first = _FORK.Process(target=_become, args=(OWNER, _FORK.Pipe()[1], signal.pause, ()))
    first.start()
    assert owner("allow", first.pid)
    first.kill()
    first.join()
    assert as_user_with_pid(first.pid, OWNER, _attach, owner.handle).endswith(
        f"process {first.pid} is not on the owner's list of processes (shareable_weight_pid_list)."
    )


def as_user_with_pid(
    pid: int | None, uid: int, function: Callable[..., Any], *arguments: Any
) -> Any:
    assert pid is not None
    for _ in range(50):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"the kernel gives out no chosen process id here: {error}")
        mine, theirs = _FORK.Pipe()
        process = _FORK.Process(target=_become, args=(uid, theirs, function, arguments))
        process.start()
        answer = mine.recv()
        process.join()
        if process.pid == pid:
            return answer
    pytest.skip(f"process id {pid} was always taken")


def _flood(path: str, handle: int, requests: int) -> list[str]:
    """Attach again and again; the refusals, each once."""
    answers = set()
    for _ in range(requests):
        try:
            _attach(handle)
            answers.add("attached")
        except UsageError as error:
            answers.add(str(error).partition("refuses: ")[2][-50:])
    return sorted(answers)


@pytest.mark.slow
def test_ten_thousand_wrong_requests(owner: Owner) -> None:
    """All are refused, a listed process attaches meanwhile, and the owner rests afterwards."""
    path = as_user(OWNER, broker_path, owner.handle)
    answers: list[Any] = []
    flood = threading.Thread(
        target=lambda: answers.extend(
            as_user(OWNER, _flood, path, owner.handle, 2000) for _ in range(5)
        )
    )
    flood.start()
    for _ in range(5):
        assert in_listed(owner, _attach_once_listed) == SECRET
    assert flood.is_alive()  # none of them waited for the end of the flood
    flood.join()
    assert answers == [["the owner's list of processes (shareable_weight_pid_list)."[-50:]]] * 5
    before = owner.processor_seconds()
    time.sleep(1.0)  # the time over which the owner's rest is measured
    assert owner.processor_seconds() - before < 0.05


def _never_read(held: Attachment) -> str:
    """Ask and never read an answer, until the owner gives up."""
    for count in range(100_000):
        try:
            held._socket.send(encode(More(0)))
        except OSError as error:
            return f"{type(error).__name__} within {count < 1000}"
    return "went on"


def test_a_listed_process_that_never_reads_is_sent_away(owner: Owner) -> None:
    assert as_listed(owner, _never_read) in (
        "BrokenPipeError within True",
        "ConnectionResetError within True",
    )
    assert as_listed(owner, lambda held: bytes(map_read_only(held.fds[0])[: len(SECRET)])) == SECRET


Serve = Callable[[socket.socket, str], Any]


class Impostor:
    """A process of the owner's user that has taken the owner's place: `serve` is given its first
    client, and the path where the owner is now.
    """

    def __init__(self, path: str, serve: Serve) -> None:
        self.pipe, theirs = _FORK.Pipe()
        self.process = _FORK.Process(
            target=_become, args=(OWNER, theirs, _impersonate, (theirs, path, serve))
        )
        self.process.start()
        self.pid = self.pipe.recv()

    def end(self) -> Any:
        """What `serve` returned."""
        assert self.pipe.poll(PATIENCE)
        answer = self.pipe.recv()
        self.process.join()
        return answer


def _impersonate(pipe: Connection, path: str, serve: Serve) -> Any:
    moved = f"{path}.moved"
    os.rename(path, moved)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        pipe.send(os.getpid())
        client, _ = listener.accept()
    with client:
        return serve(client, moved)


def _grant_at_once(client: socket.socket, _: str) -> bytes:
    """Answer whatever comes first with other weights."""
    said = client.recv(LONGEST)
    _poison(client)
    return said


def _pretend(client: socket.socket, _: str) -> bytes:
    """Speak as an owner does, without its handle."""
    said = client.recv(LONGEST)
    pid, _ = credentials(client)
    client.send(encode(Proven(nonce(), os.getpid(), pid, nonce())))
    said += client.recv(LONGEST)
    with suppress(BrokenPipeError):
        _poison(client)
    return said


def _poison(client: socket.socket) -> None:
    file, (lease, _) = SealedMemory("weights", 1 << 20), Lease.make()
    file.bytes[: len(SECRET)] = bytes(len(SECRET))
    socket.send_fds(client, [encode(Granted(1, 0))], [lease, file.fd])


def _relay(client: socket.socket, path: str) -> bytes:
    """Hand on between the client and the true owner whatever either says; what the client has
    said."""
    said = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as owner:
        owner.connect(path)
        while True:
            for near, far in ((client, owner), (owner, client)):
                if near not in select.select([client, owner], [], [])[0]:
                    continue
                data, fds, _, _ = socket.recv_fds(near, LONGEST, 10)
                if not data:
                    return said
                said += data if near is client else b""
                socket.send_fds(far, [data], fds)


def _secret(held: Attachment) -> bytes:
    return bytes(map_read_only(held.fds[0])[: len(SECRET)])


@pytest.mark.parametrize("serve", [_grant_at_once, _pretend])
def test_an_impostor_neither_learns_the_handle_nor_serves_weights(
    owner: Owner, serve: Serve
) -> None:
    impostor = Impostor(as_user(OWNER, broker_path, owner.handle), serve)
    answer = as_listed(owner, _secret)
    said = impostor.end()
    assert owner.handle.to_bytes(8, "big") not in said
    assert isinstance(answer, str), answer
    assert f"process {impostor.pid}" in answer


def test_an_impostor_gains_nothing_by_asking_the_owner(owner: Owner) -> None:
    """It hands on every message: to the owner it is a process off the list."""
    impostor = Impostor(as_user(OWNER, broker_path, owner.handle), _relay)
    assert f"refuses: process {impostor.pid} is not on the owner's list" in as_listed(
        owner, _secret
    )
    impostor.end()


def test_a_listed_impostor_without_the_handle_gains_nothing_by_asking_the_owner(
    owner: Owner,
) -> None:
    """The owner proves the handle to it, and the client sees that the proof was meant for another
    process.
    """
    impostor = Impostor(as_user(OWNER, broker_path, owner.handle), _relay)
    assert owner("allow", impostor.pid)
    answer = as_listed(owner, _secret)
    said = impostor.end()
    assert f"process {impostor.pid} listens where the owner of these weights should" in answer
    assert isinstance(msgspec.msgpack.decode(said, type=Hello), Hello)  # and nothing behind it
    assert owner("clients") == []


def _crowd(handle: int) -> list[str]:
    """More silent connections than a broker keeps of strangers."""
    path = broker_path(handle)
    ends = []
    for _ in range(50):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(10)
        sock.connect(path)
        ends.append(sock)
    return ["refused" if b"Refused" in sock.recv(1000) else "ended" for sock in ends]


def test_silent_connections_are_few_and_end(owner: Owner) -> None:
    answers = as_user(OWNER, _crowd, owner.handle)
    assert answers.count("refused") >= 42
    assert as_listed(owner, lambda held: bytes(map_read_only(held.fds[0])[: len(SECRET)])) == SECRET
