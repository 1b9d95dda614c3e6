"""Sound clients: a process that asks a server for echos by REST and gRPC, and checks each answer.

python sound_clients.py PORT GRPC_PORT

For each line of standard input it prints how its requests have fared since the last one, as JSON.
"""

from __future__ import annotations

import http.client
import json
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from hostile_documents import SIZE
from hostile_rest import PATH

from rankmesh.orchestrator.server.grpc.protocol import inference

_PAUSE = 0.02
"""Seconds between two requests of a client."""

_PATIENCE = 60.0
_METHOD = "/inference.GRPCInferenceService/ModelInfer"


class SoundClients:
    """The process, as seen from another one."""

    def __init__(self, port: int, grpc_port: int) -> None:
        command = [sys.executable, __file__, str(port), str(grpc_port)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def report(self) -> dict[str, Any]:
        """Since the last report: counts of answers and of faults, milliseconds of the median, of
        one in a hundred, and the longest; and the first fault.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        self._process.communicate()


class Client:
    """Requests one after the other, in a thread."""

    def __init__(self, echo: Callable[[bytes], bytes]) -> None:
        self._echo = echo
        self.seconds: list[float] = []
        self.faults: list[str] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        number = 0
        while True:
            number += 1
            data, began = struct.pack(f"<{SIZE}f", *range(number, number + SIZE)), time.monotonic()
            try:
                found = self._echo(data)
                if found != data:
                    self.faults.append(f"got {found!r:.100}, expected {data!r}")
            except (OSError, http.client.HTTPException, grpc.RpcError) as error:
                self.faults.append(f"{error!r:.300}")
            self.seconds.append(time.monotonic() - began)
            time.sleep(_PAUSE)


def by_rest(port: int) -> Callable[[bytes], bytes]:
    """An echo on one connection, which is opened again where the server has closed it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)

    def echo(data: bytes) -> bytes:
        headers = {"Inference-Header-Content-Length": "0"}
        connection.request("POST", PATH, data, headers)
        return connection.getresponse().read()[-len(data) :]

    return echo


def by_grpc(port: int) -> Callable[[bytes], bytes]:
    """The same by gRPC."""
    call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary(_METHOD)

    def echo(data: bytes) -> bytes:
        message = inference.ModelInferRequest(model_name="echo", raw_input_contents=[data])
        message.inputs.add(name="x", datatype="FP32", shape=[SIZE])
        answer = call(message.SerializeToString(), timeout=_PATIENCE)
        found: bytes = inference.ModelInferResponse.FromString(answer).raw_output_contents[0]
        return found

    return echo


def told(clients: list[Client]) -> dict[str, Any]:
    """See SoundClients.report."""
    seconds, faults = [], []
    for client in clients:
        count, wrong = len(client.seconds), len(client.faults)
        seconds += client.seconds[:count]
        faults += client.faults[:wrong]
        del client.seconds[:count], client.faults[:wrong]
    seconds.sort()
    moments = [seconds[min(len(seconds) * part // 100, len(seconds) - 1)] for part in (50, 99, 100)]
    found = dict(zip(("p50", "p99", "max"), (round(1e3 * one, 1) for one in moments), strict=True))
    return {"answers": len(seconds), **found, "faults": len(faults), "first": faults[:1]}


if __name__ == "__main__":
    asking = [Client(by_rest(int(sys.argv[1]))), Client(by_grpc(int(sys.argv[2])))]
    for _ in sys.stdin:
        while not all(client.seconds for client in asking):
            time.sleep(0.01)
        print(json.dumps(told(asking)), flush=True)
