"""Processor time of a gRPC server for an echo of 4 KB, beside that of a bare one of grpc.aio.

    python bench/serving_grpc.py [--rounds 9] [--requests 500] [--clients 8]

The bare server answers every request with the same reply. It is there twice, as control, and once
with Rankmesh's settings: on uvloop, and with gRPC loaded by its module. See echo_servers.py.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from echo_servers import ARRAY, MODEL, SIZE, Load, compare, timed

from rankmesh.orchestrator.server.grpc.protocol import inference

METHOD = "/inference.GRPCInferenceService/ModelInfer"
BARE = (sys.executable, __file__, "--bare")
SERVERS = {
    "bare grpc.aio": BARE,
    "bare grpc.aio (control)": BARE,
    "bare grpc.aio, our settings": (*BARE, "--our-settings"),
    "rankmesh serve": (
        *(sys.executable, "-P", "-m", "rankmesh", "serve", MODEL),
        *("--port", "0", "--grpc-port", "0"),
    ),
}


async def send(port: int, load: Load) -> None:
    """Send requests from the clients of one connection, and check all replies."""
    import grpc.aio

    body = _request().SerializeToString()
    expected = _reply().raw_output_contents[0]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(METHOD)

        async def client() -> None:
            for _ in range(load.each):
                answer = inference.ModelInferResponse.FromString(await call(body))
                assert answer.raw_output_contents[0] == expected

        with timed():
            await asyncio.gather(*(client() for _ in range(load.clients)))


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


async def serve_bare(grpc: Any) -> None:
    """Answer every request with the same reply, by the library that was loaded."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--our-settings", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--load", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    load = Load(given.requests, given.clients)
    if given.our_settings:
        import uvloop

        from rankmesh.orchestrator.server.grpc.transport.library import grpc

        uvloop.run(serve_bare(grpc))
    elif given.bare:
        import grpc.aio

        asyncio.run(serve_bare(grpc))
    elif given.load:
        asyncio.run(send(given.load, load))
    else:
        compare(SERVERS, __file__, given.rounds, load)


if __name__ == "__main__":
    main()
