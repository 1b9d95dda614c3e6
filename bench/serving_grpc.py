"""Processor time of a gRPC server for an echo of 4 KB, beside that of a bare one of grpc.aio.

    python -P bench/serving_grpc.py [--rounds 9] [--requests 500] [--clients 8]

The servers are processes of their own, and take turns; the bare one is there twice, as control, and
once on uvloop, on which Rankmesh serves. One load generator sends requests and checks every reply.
The figures are processor time per request: of the server process, and for Rankmesh of its rank.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from onnx import TensorProto, helper, save

from rankmesh.orchestrator.server.grpc.protocol import inference

SIZE = 1024
ARRAY = np.arange(SIZE, dtype=np.float32)
METHOD = "/inference.GRPCInferenceService/ModelInfer"


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: psutil.Process
    port: int

    def seconds(self) -> tuple[float, float]:
        """Processor time so far: of the process, and of those that it has started."""
        return _seconds(self.process), sum(map(_seconds, self.process.children(recursive=True)))


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextmanager
def started(*command: str) -> Iterator[Server]:
    """A server whose first line tells its port last; it has answered when its second is there."""
    words = [sys.executable, "-P", *command]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r":(\d+)\n$", line)
            assert found, line + process.stderr.read()
            process.stderr.readline()
            yield Server(psutil.Process(process.pid), int(found[1]))
        finally:
            process.kill()


def echo_model(folder: str) -> str:
    """y = x."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE]) for name in ("x", "y")]
    identity = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([identity], "echo", values[:1], values[1:])
    path = str(Path(folder) / "echo.onnx")
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


async def load(port: int, requests: int, clients: int) -> None:
    """Send requests from so many clients of one connection, and check all replies."""
    import grpc.aio

    body = _request().SerializeToString()
    expected = _reply().raw_output_contents[0]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(METHOD)

        async def client() -> None:
            for _ in range(requests // clients):
                answer = inference.ModelInferResponse.FromString(await call(body))
                assert answer.raw_output_contents[0] == expected

        await asyncio.gather(*(client() for _ in range(clients)))


def _request() -> inference.ModelInferRequest:
    message = inference.ModelInferRequest(model_name="echo")
    message.inputs.add(name="x", datatype="FP32", shape=[SIZE])
    message.raw_input_contents.append(ARRAY.tobytes())
    return message


def _reply() -> inference.ModelInferResponse:
    message = inference.ModelInferResponse(model_name="echo", model_version="1")
    message.outputs.add(name="y", datatype="FP32", shape=[SIZE])
    message.raw_output_contents.append(ARRAY.tobytes())
    return message


async def serve_bare() -> None:
    """Answer every request with the same reply."""
    import grpc.aio

    reply = _reply().SerializeToString()

    async def answer(body: bytes, context: object) -> bytes:
        return reply

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    service = "inference.GRPCInferenceService"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"ModelInfer": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"bare :{port}\nready", file=sys.stderr, flush=True)
    await server.wait_for_termination()


def measured(server: Server, requests: int, clients: int) -> tuple[float, float]:
    """Microseconds of processor time per request: of the server, and of its ranks."""
    load_command = [sys.executable, "-P", __file__, "--load", str(server.port)]
    options = ["--requests", str(requests), "--clients", str(clients)]
    before = server.seconds()
    subprocess.run([*load_command, *options], check=True)
    own, ranks = (
        (after - start) / requests * 1e6
        for after, start in zip(server.seconds(), before, strict=True)
    )
    return own, ranks


def compare(rounds: int, requests: int, clients: int) -> None:
    """Measure all servers in turn, and print a table."""
    with ExitStack() as stack:
        model = echo_model(stack.enter_context(tempfile.TemporaryDirectory()))
        rankmesh = ("-m", "rankmesh", "serve", model, "--port", "0", "--grpc-port", "0")
        commands = {
            "bare grpc.aio": (__file__, "--bare"),
            "bare grpc.aio (control)": (__file__, "--bare"),
            "bare grpc.aio on uvloop": (__file__, "--bare", "--uvloop"),
            "rankmesh serve": rankmesh,
        }
        servers = {
            name: stack.enter_context(started(*command)) for name, command in commands.items()
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
        for _ in range(rounds + 1):
            for name, server in servers.items():
                found[name].append(measured(server, requests, clients))
    print("| server | µs of the server | least to most | ratio | µs of its ranks |")
    print("|---|---|---|---|---|")
    base = [own for own, _ in found["bare grpc.aio"][1:]]
    for name, results in found.items():
        own = [each for each, _ in results[1:]]  # the first round warms
        ratio = median(mine / other for mine, other in zip(own, base, strict=True))
        ranks = median(each for _, each in results[1:])
        print(
            f"| {name} | {median(own):.0f} | {min(own):.0f} to {max(own):.0f} | {ratio:.2f} | "
            f"{ranks:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--uvloop", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--load", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.uvloop:
        import uvloop

        uvloop.run(serve_bare())
    elif given.bare:
        asyncio.run(serve_bare())
    elif given.load:
        asyncio.run(load(given.load, given.requests, given.clients))
    else:
        compare(given.rounds, given.requests, given.clients)


if __name__ == "__main__":
    main()
