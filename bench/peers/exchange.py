"""Exchanges: the HTTP request for a model in the form of a server, and the tensor of its reply."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_TOLERANCE = 1e-5  # absolute; outputs are below 1 but for those of an echo, which are equal


@dataclass(frozen=True)
class Exchange:
    """One request, always the same, and the bytes that a right reply's body has in it."""

    request: bytes
    tensor: Callable[[bytes], bytes]
    """From the body of a reply to the bytes of the output, float32."""
    output: Array

    def expected(self, body: bytes) -> bytes:
        """The part of a first reply's body that all others have as well. Raises AssertionError
        where its numbers are not those of onnxruntime.
        """
        data = self.tensor(body)
        found = np.frombuffer(data, np.float32)
        np.testing.assert_allclose(found, self.output.ravel(), rtol=0, atol=_TOLERANCE)
        return data if data in body else base64.b64encode(data)


def exchange(form: str, values: Path) -> Exchange:
    """The exchange for NAME.npz by a form: `binary` is the Open Inference Protocol's with binary
    tensors, `base64` that with strings, `mosec` and `litserve` are bytes.
    """
    arrays = np.load(values)
    x, y = arrays["x"], arrays["y"]
    data = x.tobytes()
    path = f"/v2/models/{values.stem}/infer"
    if form == "binary":
        head = _binary_document(x)
        extra = f"Inference-Header-Content-Length: {len(head)}\r\n"
        return Exchange(_post(path, head + data, extra), lambda body: body[-y.nbytes :], y)
    if form == "base64":
        extra = "Content-Type: application/json\r\n"
        return Exchange(_post(path, _base64_document(data), extra), _from_base64, y)
    path = {"mosec": "/inference", "litserve": "/predict"}[form]
    extra = "Content-Type: application/octet-stream\r\n"
    return Exchange(_post(path, data, extra), lambda body: body, y)


def reply_size(received: bytes) -> int:
    """Bytes of a whole reply with its head; 0 while the head is not there."""
    head, end, _ = received.partition(b"\r\n\r\n")
    if not end:
        return 0
    length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r")[0]
    return len(head) + len(end) + int(length)


def _binary_document(x: Array) -> bytes:
    given = {"name": "x", "shape": x.shape, "datatype": "FP32"}
    given["parameters"] = {"binary_data_size": x.nbytes}
    wished = {"name": "y", "parameters": {"binary_data": True}}
    return json.dumps({"inputs": [given], "outputs": [wished]}).encode()


def _base64_document(data: bytes) -> bytes:
    given = {"name": "x", "shape": [1, 1], "datatype": "BYTES"}
    given["parameters"] = {"content_type": "base64"}
    given["data"] = [base64.b64encode(data).decode()]
    return json.dumps({"inputs": [given]}).encode()


def _from_base64(body: bytes) -> bytes:
    return base64.b64decode(json.loads(body)["outputs"][0]["data"][0])


def _post(path: str, body: bytes, extra: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
