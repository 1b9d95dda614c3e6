"""One of Triton's own clients, as `serving_chaos.py` starts it, for REST or gRPC at an address.

    python serving_chaos_client.py rest|grpc ADDRESS

It asks until a line comes from standard input, and prints how its requests have fared, as JSON.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
import select
import sys
import time
from typing import Any

import numpy as np

_NUMBERS = 1024
_PATIENCE = 60.0
_TEXT = 160
_AGAIN = 0.1
"""Seconds until a client that has failed asks again."""


def echo(triton: Any, client: Any, number: int) -> bool:
    """Whether the answer is the one to this request."""
    data = np.full((1, _NUMBERS), number, np.float32)
    given = triton.InferInput("x", [1, _NUMBERS], "FP32")
    given.set_data_from_numpy(data)
    return bool(np.array_equal(client.infer("echo", [given]).as_numpy("y"), data))


def main(protocol: str, address: str) -> None:
    """Ask, one request after the other."""
    triton = importlib.import_module(f"tritonclient.{'http' if protocol == 'rest' else 'grpc'}")
    limits = {"network_timeout": _PATIENCE} if protocol == "rest" else {}
    client = triton.InferenceServerClient(address, **limits)
    seconds: list[float] = []
    failed: list[tuple[float, str]] = []
    wrong = 0
    for number in itertools.count():
        begun = time.monotonic()
        try:
            wrong += not echo(triton, client, number)
            seconds.append(time.monotonic() - begun)
        except Exception as error:  # each of its transports has classes of its own
            text = re.sub(r"\d{2,}", "N", f"{type(error).__name__}: {error}")
            failed.append((time.monotonic(), text[:_TEXT]))
            time.sleep(_AGAIN)
        if not number:
            print("ready", flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            break
    print(json.dumps({"seconds": seconds, "failed": failed, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
