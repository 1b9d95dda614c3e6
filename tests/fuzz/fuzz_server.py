"""Fuzzes a running server by REST and gRPC, beside clients whose answers are checked.

python tests/fuzz/fuzz_server.py [--requests 100000] [--seed 0]

Prints what came back, how long the other clients waited, and what the server holds. The status is 1
where an answer was wrong, or the server holds more than after the first tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random

import psutil

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
from hostile_documents import SIZE  # noqa: E402
from served_http import ServerProcess, serving  # noqa: E402
from served_models import echo  # noqa: E402
from server_attack import Findings, attack_grpc, attack_rest  # noqa: E402
from sound_clients import SoundClients  # noqa: E402

LIMITS = ("--grpc-port", "0", "--max-body-bytes", str(8 << 20), "--shared-memory-prefix", "/fuzz-")
_GROWTH = 16 << 20
_PARTS = 10


def held(server: ServerProcess) -> tuple[int, int, int]:
    """Bytes of memory of its own, open files and threads."""
    process = psutil.Process(server.process.pid)
    return process.memory_full_info().uss, process.num_fds(), process.num_threads()


def attacked(server: ServerProcess, seed: str, requests: int) -> list[Findings]:
    """Half of the requests by REST, half by gRPC, at the same time."""

    async def both() -> list[Findings]:
        rest = attack_rest(server.port, Random(f"{seed} rest"), requests // 2)
        calls = attack_grpc(server.grpc_port, Random(f"{seed} grpc"), requests // 2)
        return list(await asyncio.gather(rest, calls))

    return asyncio.run(both())


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with serving(echo(Path(folder), SIZE), *LIMITS) as server:
            threading.Thread(target=server.process.stderr.read, daemon=True).start()
            sound = SoundClients(server.port, server.grpc_port)
            faults, memory = 0, []
            for part in range(_PARTS):
                seed = f"{options.seed} {part}"
                faults += fuzz(server, sound, seed, options.requests // _PARTS)
                memory.append(held(server)[0])
            sound.end()
            status = server.terminate()
    grown = memory[-1] - memory[0]
    print(f"{faults} faults; status {status} after TERM; {grown >> 10} KiB more than after a tenth")
    return 1 if faults or status or grown > _GROWTH else 0


def fuzz(server: ServerProcess, sound: SoundClients, seed: str, requests: int) -> int:
    """Send a part of the requests, and print what came of them; how many faults there were."""
    began = time.monotonic()
    found = attacked(server, seed, requests)
    print(f"{time.monotonic() - began:.0f} s", *(dict(one.outcomes) for one in found))
    memory, files, threads = held(server)
    print(f"  {memory >> 10} KiB, {files} files, {threads} threads")
    clients = sound.report()
    print(f"  sound clients: {clients}", flush=True)
    faults = [fault for one in found for fault in one.faults]
    for fault in faults:
        print(f"  FAULT {fault}", flush=True)
    return len(faults) + clients["faults"]


if __name__ == "__main__":
    sys.exit(main())
