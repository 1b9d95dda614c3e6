"""Processor time of an HTTP server for an echo of 4 KB in binary, beside that of bare uvicorn.

    python bench/serving_http.py --uvicorn PYTHON [--rounds 9] [--requests 2000] [--clients 8]

PYTHON is an interpreter of an environment with uvicorn, uvloop and httptools. The bare application
reads the body and answers every request with the same reply; it is there twice, as control. See
echo_servers.py.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

TEXT_IN = (
    b'{"inputs":[{"name":"x","shape":[1024],"datatype":"FP32","parameters":{"binary_data_size":'
    b'4096}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
)
_END = b"\r\n\r\n"
_BARE = Path(__file__).parent / "bare_uvicorn.py"


async def send(port: int, requests: int, clients: int) -> None:
    """Send requests, each client's on a connection of its own, and check all replies."""
    from echo_servers import ARRAY, timed

    expected = ARRAY.tobytes()
    head = (
        b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\n"
        b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
    )
    request = head % (len(TEXT_IN), len(TEXT_IN) + len(expected)) + TEXT_IN + expected

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(requests // clients):
            writer.write(request)
            found = await reader.readuntil(_END)
            assert found.startswith(b"HTTP/1.1 200 "), found
            length = found.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r")[0]
            body = await reader.readexactly(int(length))
            assert body.endswith(expected), body
        writer.close()

    with timed():
        await asyncio.gather(*(client() for _ in range(clients)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--uvicorn", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--load", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        import uvloop

        uvloop.run(send(given.load, given.requests, given.clients))
        return
    from echo_servers import MODEL, Load, compare

    bare = (given.uvicorn, "-P", str(_BARE))
    rankmesh = (sys.executable, "-P", "-m", "rankmesh", "serve", MODEL, "--port", "0")
    servers = {"bare uvicorn": bare, "bare uvicorn (control)": bare, "rankmesh serve": rankmesh}
    compare(servers, __file__, given.rounds, Load(given.requests, given.clients))


if __name__ == "__main__":
    main()
