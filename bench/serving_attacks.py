"""Attacks on a server: its processor time, its memory, and how long its loop stands still.

    python bench/serving_attacks.py [--only NAME]

Each attack meets a server of its own, with the limits that it has by default. Beside it, one client
asks for `/v2/health/live` every 10 ms over a connection that it had before. The longest pause of
its answers is that of the loop, and of the machine. Processor time is that of the server's process,
from the attack until it has had its effect. Memory is the growth of its peak.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
from report import print_machine, print_table
from served_process import NUMBERS, ServedProcess, served

_HEAD = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\n"
_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS, _PING = 4, 6
_EVERY = 0.01
_PATIENCE = 60.0
_NAME = f"attacked-{os.getpid()}"
_NO_LIMIT = [("grpc.max_send_message_length", -1)]


def trailer(server: ServedProcess) -> str:
    """24 MiB of one header behind a body in chunks."""
    with _connected(server.port) as sock:
        sock.sendall(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ")
        sent = 0
        with suppress(OSError):
            while sent < 24:
                sock.sendall(b"a" * (1 << 20))
                sent += 1
        return f"{sent} MiB were taken"


def list_of_lists(server: ServedProcess) -> str:
    """32 KB of gzip that are 32 MiB of `[1],`, where the shape has 1024 elements."""
    start = b'{"inputs":[{"name":"x","shape":[1,1024],"datatype":"FP32","data":['
    return _posted(server, gzip.compress(start + b"[1]," * (8 << 20) + b"1]}]}"))


def long_shape(server: ServedProcess) -> str:
    """64 KB of gzip whose shape has 32 Mi dimensions."""
    return _posted(server, gzip.compress(b'{"inputs":[{"shape":[' + b"1," * (32 << 20) + b"1]}]}"))


def real_numbers(server: ServedProcess) -> str:
    """A request in JSON as it may be: 4 Mi numbers, 40 MB."""
    rows = (4 << 20) // NUMBERS
    start = b'{"inputs":[{"name":"x","shape":[%d,%d],"datatype":"FP32","data":[' % (rows, NUMBERS)
    wish = b'"outputs":[{"name":"y","parameters":{"binary_data":true}}]'
    return _posted(server, start + b"0.123456," * (rows * NUMBERS - 1) + b"1]}]," + wish + b"}", "")


def empty_members(server: ServedProcess) -> str:
    """Seven clients that send 8 MiB of empty members of gzip, and leave; TERM after a second."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    member = packer.compress(b"") + packer.flush()
    body = member * ((8 << 20) // len(member))
    with ExitStack() as crowd:
        for _ in range(7):
            sock = crowd.enter_context(_connected(server.port))
            length = b"Content-Length: %d\r\n\r\n" % len(body)
            sock.sendall(_HEAD + b"Content-Encoding: gzip\r\n" + length + body)
        time.sleep(1)
    return ""


def zeros_by_grpc(server: ServedProcess) -> str:
    """900 KB of gzip that are 900 MiB of zeros."""
    return _called(server, bytes(900 << 20))


def fields_by_grpc(server: ServedProcess) -> str:
    """64 KB of gzip that are 32 Mi empty outputs."""
    return _called(server, b"\x32\x00" * (32 << 20))


def idle_by_grpc(server: ServedProcess) -> str:
    """As many idle connections of gRPC as there may be, which answer pings, and one client."""
    with ExitStack() as crowd:
        for _ in range(1000):
            sock = crowd.enter_context(_connected(server.grpc_port))
            sock.sendall(_PREFACE)
            threading.Thread(target=_answer_pings, args=(sock,), daemon=True).start()
        begun = time.monotonic()
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options) as channel:
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            try:
                live(b"", timeout=2 * _PATIENCE, wait_for_ready=True)
            except grpc.RpcError:
                return f"no answer to the client within {2 * _PATIENCE:.0f} s"
        return f"the client has its answer after {time.monotonic() - begun:.0f} s"


def _answer_pings(sock: socket.socket) -> None:
    """Be a client of HTTP/2 that is there, and sends no request."""
    sock.settimeout(None)
    with suppress(OSError, EOFError), sock.makefile("rb") as frames:
        while len(head := frames.read(9)) == 9:
            content = frames.read(int.from_bytes(head[:3], "big"))
            if head[3] == _SETTINGS and not head[4]:
                sock.sendall(bytes([0, 0, 0, _SETTINGS, 1, 0, 0, 0, 0]))
            elif head[3] == _PING and not head[4]:
                sock.sendall(head[:4] + b"\1" + head[5:] + content)


def silent_programs(server: ServedProcess) -> str:
    """As many silent connections to the name of the server as there may be, and one program."""
    from rankmesh.orchestrator.endpoint.names import path_of

    with ExitStack() as crowd:
        for _ in range(1000):
            sock = crowd.enter_context(socket.socket(socket.AF_UNIX))
            sock.settimeout(_PATIENCE)
            sock.connect(path_of(_NAME))
        begun = time.monotonic()
        code = f"import rankmesh; rankmesh.connect({_NAME!r}).close()"
        with suppress(subprocess.TimeoutExpired):
            found = subprocess.run([sys.executable, "-P", "-c", code], stderr=-1, timeout=20)
            if found.returncode == 0:
                return f"a program has come and gone after {time.monotonic() - begun:.1f} s"
        return "no program is connected within 20 s"


def nothing(server: ServedProcess) -> str:
    """None: two seconds."""
    time.sleep(2)
    return ""


Attack = Callable[[ServedProcess], str]
ATTACKS: tuple[Attack, ...] = (
    *(nothing, trailer, list_of_lists, long_shape, real_numbers, empty_members),
    *(zeros_by_grpc, fields_by_grpc, idle_by_grpc, silent_programs),
)


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), _PATIENCE)


def _posted(server: ServedProcess, body: bytes, encoding: str = "gzip") -> str:
    """The status of the response to a body."""
    encoded = b"Content-Encoding: %b\r\n" % encoding.encode() if encoding else b""
    length = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    found = bytearray()
    with _connected(server.port) as sock, suppress(OSError):
        sock.sendall(_HEAD + encoded + length + body)
        while part := sock.recv(1 << 16):
            found += part
    return f"{len(body) >> 10} KB sent, status {found[9:12].decode() or 'none'}"


def _called(server: ServedProcess, message: bytes) -> str:
    """The status of a call with a message that gzip makes small."""
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", _NO_LIMIT) as channel:
        try:
            channel.unary_unary(_METHOD)(
                message, compression=grpc.Compression.Gzip, timeout=_PATIENCE
            )
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


async def watch(port: int) -> None:
    """Ask every 10 ms; the longest pause, once a line has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    longest, last = 0.0, time.monotonic()
    print("begun", flush=True)
    with suppress(OSError, asyncio.IncompleteReadError):
        while not ended.done():
            writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"}")
            now = time.monotonic()
            longest, last = max(longest, now - last - _EVERY), now
            await asyncio.sleep(_EVERY)
    print(longest, flush=True)
    await ended


def measured(attack: Attack) -> list[str]:
    """A row of the table."""
    options = ["--threads", "1", "--drain-timeout", "5"]
    if attack is silent_programs:
        options += ["--name", _NAME]
    with served(*options) as server:
        asyncio.run(server.ready())
        watcher = subprocess.Popen(
            [sys.executable, __file__, "--watch", str(server.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watcher.stdout is not None
        watcher.stdout.readline()
        memory, before = _peak(server), server.process.cpu_times()
        outcome = attack(server)
        now, peak = server.process.cpu_times(), _peak(server)
        longest = float(watcher.communicate("\n", _PATIENCE)[0])
        if attack is empty_members:
            outcome = _ended(server)
        seconds = now.user + now.system - before.user - before.system
        row = [f"{seconds:.2f}", str((peak - memory) >> 10), f"{longest:.2f}", outcome]
        return [(attack.__doc__ or "").splitlines()[0].rstrip("."), *row]


def _peak(server: ServedProcess) -> int:
    """The most memory that the process has had, in KiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found
    return int(found[1])


def _ended(server: ServedProcess) -> str:
    """How long a server takes to end."""
    begun = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(_PATIENCE)
    except Exception:
        server.process.kill()
        return f"it did not end within {_PATIENCE:.0f} s of TERM"
    return f"it ended {time.monotonic() - begun:.1f} s after TERM"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=[one.__name__ for one in ATTACKS])
    parser.add_argument("--watch", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watch:
        asyncio.run(watch(given.watch))
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print_machine("rankmesh", "grpcio", "msgspec", "numpy")
    wanted = [one for one in ATTACKS if given.only in (None, one.__name__)]
    rows = []
    for one in wanted:
        rows.append(measured(one))
        print(rows[-1], flush=True)
    print_table(["attack", "processor s", "peak + MiB", "loop still s", "outcome"], rows)


if __name__ == "__main__":
    main()
