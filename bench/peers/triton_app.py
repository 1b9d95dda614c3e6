"""Triton's model of serving_peers.py, for its python backend; the parameter `file` is the model."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as triton
from runnable import runnable


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        self.run = runnable(parameters["file"]["string_value"])

    def execute(self, requests: list[Any]) -> list[Any]:
        return [triton.InferenceResponse([self._output(request)]) for request in requests]

    def _output(self, request: Any) -> Any:
        x = triton.get_input_tensor_by_name(request, "x").as_numpy()
        return triton.Tensor("y", self.run(x))
