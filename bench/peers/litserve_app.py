"""LitServe with one model: python litserve_app.py MODEL WORKERS PORT.

Requests and replies are the bytes of the tensors. LitServe reads the type of a request from the
annotation, which must not be a string.
"""

import sys
from typing import Annotated, Any

import litserve
import numpy as np
from fastapi import Body, Response
from runnable import runnable

MODEL, WORKERS, PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
Bytes = Annotated[bytes, Body(media_type="application/octet-stream")]


class Model(litserve.LitAPI):  # type: ignore[misc]
    def setup(self, device: str) -> None:
        self.run = runnable(MODEL)

    def decode_request(self, request: Bytes) -> Any:
        return np.frombuffer(request, np.float32)

    def predict(self, x: Any) -> Any:
        return self.run(x)

    def encode_response(self, output: Any) -> Response:
        return Response(output.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    server = litserve.LitServer(Model(), accelerator="cpu", workers_per_device=WORKERS)
    server.run(host="127.0.0.1", port=PORT, generate_client_file=False, log_level="warning")
