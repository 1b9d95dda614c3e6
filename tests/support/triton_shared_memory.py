"""Triton's own clients with their shared memory, unchanged: PREFIX HTTP_PORT GRPC_PORT.

The server has the model `doubler`. A program of its own, as test_tritonclient_grpc.py tells.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as memory

X = np.arange(400_000, dtype=np.float32).reshape(-1, 4)
BIAS = np.full(1, 0.5, np.float32)


def ask(module: Any, address: str, prefix: str) -> None:
    """All calls of one client: x in shared memory, the bias in the body, y to shared memory."""
    client = module.InferenceServerClient(address)
    key = f"{prefix}{module.__name__}"
    given = memory.create_shared_memory_region("given", key, 2 * X.nbytes)
    try:
        memory.set_shared_memory_region(given, [X])
        client.register_system_shared_memory("given", key, 2 * X.nbytes)
        x = module.InferInput("x", list(X.shape), "FP32")
        x.set_shared_memory("given", X.nbytes)
        bias = module.InferInput("bias", [1], "FP32")
        bias.set_data_from_numpy(BIAS)
        y = module.InferRequestedOutput("y")
        y.set_shared_memory("given", X.nbytes, X.nbytes)
        for wished in ([y, module.InferRequestedOutput("s")], [y]):
            found = client.infer("doubler", [x, bias], outputs=wished)
            y_found = memory.get_contents_as_numpy(given, np.float32, X.shape, X.nbytes)
            np.testing.assert_array_equal(y_found, 2 * X + 0.5)
            y_found[...] = 0
        found = client.infer("doubler", [bias, x], outputs=[y, module.InferRequestedOutput("s")])
        assert found.as_numpy("s") == BIAS
        status = client.get_system_shared_memory_status("given")
        assert str(2 * X.nbytes) in str(status) and key in str(status)
        refused(client, "is registered already", key, 4)
        client.unregister_system_shared_memory("given")
        refused(client, "no shared memory with this key", f"{key}-other", 4)
        client.unregister_system_shared_memory()
        try:
            client.infer("doubler", [x, bias])
        except InferenceServerException as error:
            assert "no region 'given'" in error.message(), error
        else:
            raise AssertionError("expected an error")
    finally:
        memory.destroy_shared_memory_region(given)
    client.close()


def refused(client: Any, text: str, key: str, size: int) -> None:
    try:
        client.register_system_shared_memory("given", key, size)
    except InferenceServerException as error:
        assert text in error.message(), error
    else:
        raise AssertionError(f"expected an error: {text}")


ask(tritonclient.http, f"127.0.0.1:{sys.argv[2]}", sys.argv[1])
ask(tritonclient.grpc, f"127.0.0.1:{sys.argv[3]}", sys.argv[1])
print("answered")
