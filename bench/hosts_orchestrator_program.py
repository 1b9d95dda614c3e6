"""A process of bench/hosts_orchestrator.py: an orchestrator, or one end of a bare connection.

orchestrator LISTEN KEY_FILE FOLDER NETWORK|- | server ADDRESS | client ADDRESS
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

SMALL, LARGE = 4096, 16 << 20
CALLS = {SMALL: 500, LARGE: 15}
PORT = 29611
_WARM = 20
_LOAD = 2.0


def timed(call: Callable[[], object], calls: int) -> float:
    """The median of so many calls, in microseconds."""
    for _ in range(min(calls, _WARM)):
        call()
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e6)
    return median(times)


def serve(address: str) -> None:
    """Echo small messages; answer large ones with as much as a small one."""
    with socket.create_server((address, PORT)) as listener:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        room = memoryview(bytearray(LARGE))
        while head := sock.recv(8, socket.MSG_WAITALL):
            size = int.from_bytes(head, "little")
            _fill(sock, room[:size])
            sock.sendall(room[:SMALL])


def ask(address: str) -> None:
    """The round trips of a bare connection."""
    with socket.create_connection((address, PORT)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        room = memoryview(bytearray(SMALL))

        def call(data: bytes) -> None:
            sock.sendmsg([len(data).to_bytes(8, "little"), data[: 1 << 16]])
            if len(data) > 1 << 16:
                sock.sendall(memoryview(data)[1 << 16 :])
            _fill(sock, room)

        calls = {size: partial(call, bytes(size)) for size in CALLS}
        print(json.dumps({size: timed(calls[size], CALLS[size]) for size in CALLS}))


def orchestrate(listen: str, key_file: str, folder: str, network: str) -> None:
    """The round trips of requests to a rank on the other host, then the rank's death and a cut."""
    from rankmesh import ModelSettings, Orchestrator

    models = [ModelSettings(f"{folder}/{size}.onnx", str(size)) for size in CALLS]
    with Orchestrator(
        models,
        launcher="agents",
        listen=listen,
        key_file=key_file,
        host_timeout=2.0,
        trusted_networks=None if network == "-" else [network],
    ) as served:
        found: dict[str, float] = {}
        for size, calls in CALLS.items():
            with served.buffers(str(size)) as given:
                given["x"][:] = 1
                found[str(size)] = timed(partial(served.predict, given, model=str(size)), calls)
        print(json.dumps(found), flush=True)


def faults(listen: str, key_file: str, folder: str, far: str) -> None:
    """Requests of four threads to a replica on each host, while a rank dies, and a cable is cut."""
    import psutil

    from rankmesh import Orchestrator

    given = {"x": np.ones(SMALL // 4, np.float32)}
    with Orchestrator(
        f"{folder}/{SMALL}.onnx",
        replicas=2,
        launcher="agents",
        agents=2,
        listen=listen,
        key_file=key_file,
        host_timeout=2.0,
    ) as served:
        slowest, failed, open_ = [0.0], [0], [True]

        def load() -> None:
            while open_[0]:
                begun = time.monotonic()
                try:
                    served.predict(given)
                except Exception:
                    failed[0] += 1
                slowest[0] = max(slowest[0], time.monotonic() - begun)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(_LOAD)
        found: dict[str, float] = {}
        children = {child.pid for child in psutil.Process(int(far)).children()}
        (victim,) = [one.pid for one in served.status().ranks if one.pid in children]
        begun, slowest[0] = time.monotonic(), 0.0
        psutil.Process(victim).kill()
        _wait(lambda: any(one.restarts for one in served.status().ranks))
        _wait(lambda: served.status().state == "ready")
        found["rank dies: slowest request, s"] = slowest[0]
        found["rank dies: ready again, s"] = time.monotonic() - begun
        slowest[0] = 0.0
        print("cut", flush=True)
        sys.stdin.readline()
        begun = time.monotonic()
        _wait(lambda: served.status().state == "restarting")
        found["cut: named after, s"] = time.monotonic() - begun
        time.sleep(_LOAD)
        open_[0] = False
        for thread in threads:
            thread.join()
        found["cut: slowest request, s"] = slowest[0]
        found["requests lost"] = failed[0]
        print(json.dumps(found), flush=True)


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            sys.exit("waited for too long")
        time.sleep(0.002)


def _fill(sock: socket.socket, room: memoryview) -> None:
    at = 0
    while at < len(room):
        at += sock.recv_into(room[at:])


if __name__ == "__main__":
    roles = {"orchestrator": orchestrate, "server": serve, "client": ask, "faults": faults}
    roles[sys.argv[1]](*sys.argv[2:])
