"""MLServer's model of serving_peers.py. Its REST has no binary tensors: bytes come as base64."""

from __future__ import annotations

import numpy as np
from mlserver import MLModel
from mlserver.codecs import Base64Codec
from mlserver.types import InferenceRequest, InferenceResponse
from runnable import runnable


class Model(MLModel):  # type: ignore[misc]
    async def load(self) -> bool:
        self.run = runnable(self.settings.parameters.uri)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        (given,) = Base64Codec.decode_input(payload.inputs[0])
        found = self.run(np.frombuffer(given, np.float32))
        output = Base64Codec.encode_output("y", [found.tobytes()], use_bytes=False)
        return InferenceResponse(model_name=self.name, outputs=[output])
