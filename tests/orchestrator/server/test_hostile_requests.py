"""A thousand hostile requests to a server: each gets an error of its own, and the server goes on.

tests/fuzz/fuzz_server.py sends as many as it is told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from hostile_documents import SIZE
from hostile_rest import PATH
from served_http import ServerProcess, serving
from served_models import echo
from server_attack import Findings, attack_grpc, attack_rest

SMALL = ("--grpc-port", "0", "--max-body-bytes", str(8 << 20), "--shared-memory-prefix", "/fuzz-")
DATA = bytes(4 * SIZE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(echo(tmp_path_factory.mktemp("hostile"), SIZE), *SMALL) as made:
        yield made


def test_requests_and_calls_of_the_grammar(server: ServerProcess) -> None:
    async def both() -> tuple[Findings, Findings]:
        rest = attack_rest(server.port, Random(1), 600)
        return await asyncio.gather(rest, attack_grpc(server.grpc_port, Random(2), 400))

    rest, calls = asyncio.run(both())
    assert rest.faults + calls.faults == []
    assert {"200", "400", "404", "413", "431"} <= rest.outcomes.keys()
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= calls.outcomes.keys()
    headers = {"Inference-Header-Content-Length": "0"}
    assert server.ask("POST", PATH, DATA, headers).array().tobytes() == DATA
    assert server.terminate() == 0
